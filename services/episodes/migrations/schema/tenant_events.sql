-- What lists of a tenant follow; stored for an hour. Ids of transactions order them: an id of a row is given before its
-- transaction ends, so a reader that goes by it alone would pass by rows of transactions that end later.
CREATE TABLE tenant_events (
    tenant text NOT NULL,
    transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id bigint GENERATED ALWAYS AS IDENTITY,
    message_id text NOT NULL,
    event_type text NOT NULL,
    body text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, transaction_id, id),
    UNIQUE (tenant, message_id)
);
