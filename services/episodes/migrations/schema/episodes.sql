-- Content-addressed bodies: toolsets, steps, trajectories.
CREATE TABLE segments (
    digest bytea PRIMARY KEY,
    body bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE episodes (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    subject text NOT NULL,
    spec bytea NOT NULL,
    toolset_digest bytea NOT NULL REFERENCES segments,
    policy_name text NOT NULL,
    policy_version integer NOT NULL,
    labels jsonb NOT NULL,
    group_id text NOT NULL,
    group_size integer NOT NULL,
    sample_index integer NOT NULL,
    task_id text NOT NULL,
    turn_limit integer NOT NULL,
    time_limit_s double precision NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    stop_reason text,
    answer text NOT NULL DEFAULT '',
    failure bytea NOT NULL DEFAULT '',
    turn_count integer NOT NULL DEFAULT 0,
    tool_call_count integer NOT NULL DEFAULT 0,
    cost numeric(28, 12),
    currency text,
    unpriced_call_count integer NOT NULL DEFAULT 0,
    usage bytea NOT NULL DEFAULT '',
    end_time timestamptz,
    -- Teams, agents, roles and key of the caller: policies bind them.
    groups text[] NOT NULL DEFAULT '{}',
    -- Model and policy of a live evaluation, in place of those in the spec: a serialized EpisodeSpec.
    assigned bytea NOT NULL DEFAULT '',
    UNIQUE (tenant, group_id, sample_index)
);
CREATE INDEX episodes_by_tenant ON episodes (tenant, id DESC);
CREATE INDEX episodes_open ON episodes (create_time) WHERE stop_reason IS NULL;
-- A tenant's running episodes are counted at every start.
CREATE INDEX episodes_running_by_tenant ON episodes (tenant) WHERE stop_reason IS NULL;
-- Retention looks for the oldest that ended, and for references to a body.
CREATE INDEX episodes_ended ON episodes (end_time) WHERE end_time IS NOT NULL;
CREATE INDEX episodes_by_toolset ON episodes (toolset_digest);

-- True if one more of the tenant's episodes may run: fewer than the limit do, or it is there already.
-- Starts of one tenant count one after the other, so that none of them overlooks another: the lock is held until the
-- caller's transaction ends, and what came before it is counted, since each statement of a volatile function sees
-- what is committed by then.
CREATE FUNCTION episode_has_room(of_tenant text, episode uuid, running_limit integer) RETURNS boolean
VOLATILE LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(of_tenant, 5150003));
    RETURN (SELECT count(*) FROM episodes WHERE tenant = of_tenant AND stop_reason IS NULL) < running_limit
        OR EXISTS (SELECT FROM episodes WHERE id = episode);
END
$$;
