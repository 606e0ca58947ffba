-- Records owed to the trajectory stream, and where they were written.
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    record_id text NOT NULL UNIQUE,
    kind text NOT NULL,
    tenant text NOT NULL,
    group_id text NOT NULL,
    episode_id uuid,
    digest bytea NOT NULL REFERENCES segments,
    headers jsonb NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    publish_time timestamptz,
    partition_number integer,
    record_offset bigint,
    confirm_time timestamptz,
    dead_letter_reason text
);
CREATE INDEX outbox_owed ON outbox (id) WHERE publish_time IS NULL;
CREATE INDEX outbox_unconfirmed ON outbox (id)
WHERE publish_time IS NOT NULL AND confirm_time IS NULL;
CREATE INDEX outbox_members ON outbox (tenant, group_id) WHERE kind = 'trajectory';
CREATE INDEX outbox_by_group ON outbox (tenant, group_id);
CREATE INDEX outbox_by_digest ON outbox (digest);
