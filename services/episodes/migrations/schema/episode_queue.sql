-- Episodes that have not ended and have no workflow: who takes their turns, and when another worker may. A row of its
-- own, so that taking and keeping an episode rewrites nothing wide.
CREATE TABLE episode_queue (
    episode_id uuid PRIMARY KEY REFERENCES episodes ON DELETE CASCADE,
    due_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    holder text NOT NULL DEFAULT '',
    attempts integer NOT NULL DEFAULT 0,
    -- When a worker had it first: its time limit counts from here.
    begin_time timestamptz,
    cancelled boolean NOT NULL DEFAULT false,
    -- Set once a workflow is to go on: how the episode has to end, {} while it has not ended.
    handover jsonb
) WITH (fillfactor = 50);
CREATE INDEX episode_queue_by_due_time ON episode_queue (due_time);
