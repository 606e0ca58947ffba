-- What lists filter, sort and show of episodes: narrow, indexed, written where an episode begins and ends.
CREATE TABLE episode_facts (
    id uuid PRIMARY KEY REFERENCES episodes ON DELETE CASCADE,
    tenant text NOT NULL,
    subject text NOT NULL,
    teams text[] NOT NULL,
    policy text NOT NULL,
    model text NOT NULL,
    labels jsonb NOT NULL,
    group_id text NOT NULL,
    task_id text NOT NULL,
    parent_id uuid,
    -- Its beginning.
    task text NOT NULL,
    create_time timestamptz NOT NULL,
    -- From its end on.
    stop_reason text,
    cost numeric(28, 12) NOT NULL DEFAULT 0,
    currency text,
    duration_ms bigint NOT NULL DEFAULT 0,
    unpriced boolean NOT NULL DEFAULT false,
    tools text[] NOT NULL DEFAULT '{}',
    failure_kinds integer[] NOT NULL DEFAULT '{}',
    score double precision,
    training_consent boolean NOT NULL DEFAULT false,
    -- Tools, as tool/model where a model answered, that the answer's verdict is credited to; none without consent to
    -- training. The verdict is the score, or else that of the newest feedback.
    credited text[] NOT NULL DEFAULT '{}',
    verdict double precision,
    verdict_time timestamptz
);
-- Indexes of ended episodes alone: a row is written into them once.
CREATE INDEX episode_facts_running ON episode_facts (tenant, create_time DESC, id DESC) WHERE stop_reason IS NULL;
CREATE INDEX episode_facts_newest ON episode_facts (tenant, create_time DESC, id DESC)
    INCLUDE (stop_reason, cost, currency) WHERE stop_reason IS NOT NULL;
CREATE INDEX episode_facts_cost ON episode_facts (tenant, cost DESC, id DESC) WHERE stop_reason IS NOT NULL;
CREATE INDEX episode_facts_duration ON episode_facts (tenant, duration_ms DESC, id DESC) WHERE stop_reason IS NOT NULL;
CREATE INDEX episode_facts_policy ON episode_facts (tenant, policy, create_time DESC, id DESC)
    WHERE stop_reason IS NOT NULL;
CREATE INDEX episode_facts_subject ON episode_facts (tenant, subject, create_time DESC, id DESC)
    WHERE stop_reason IS NOT NULL;
CREATE INDEX episode_facts_stop_reason ON episode_facts (tenant, stop_reason, create_time DESC, id DESC)
    WHERE stop_reason IS NOT NULL;
CREATE INDEX episode_facts_group ON episode_facts (tenant, group_id) WHERE stop_reason IS NOT NULL;
CREATE INDEX episode_facts_parent ON episode_facts (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX episode_facts_labels ON episode_facts USING gin (labels jsonb_path_ops) WHERE stop_reason IS NOT NULL;
CREATE INDEX episode_facts_tools ON episode_facts USING gin (tools) WHERE stop_reason IS NOT NULL;
CREATE INDEX episode_facts_verdicts ON episode_facts (tenant, verdict_time DESC) WHERE verdict IS NOT NULL;
CREATE INDEX episode_facts_words ON episode_facts USING gin (to_tsvector('simple', task)) WHERE stop_reason IS NOT NULL;
