-- Episodes that have not ended and have no workflow, with their holder and the time from which another worker may lease
-- them. A row of its own, so that leasing an episode and renewing the lease rewrite nothing wide.
CREATE TABLE episode_queue (
    episode_id uuid PRIMARY KEY REFERENCES episodes ON DELETE CASCADE,
    due_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    holder text NOT NULL DEFAULT '',
    attempts integer NOT NULL DEFAULT 0,
    -- When a worker first leased it: its time limit counts from here.
    begin_time timestamptz,
    cancelled boolean NOT NULL DEFAULT false,
    -- Set once a workflow is to continue it: how the episode has to end, {} while it has not ended.
    handover jsonb,
    tenant text NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX episode_queue_by_due_time ON episode_queue (due_time);
CREATE INDEX episode_queue_by_tenant ON episode_queue (tenant, due_time);
-- Few rows are held, however many wait.
CREATE INDEX episode_queue_held ON episode_queue (tenant, due_time) WHERE holder <> '';
