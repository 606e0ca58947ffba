-- Where a tenant's events are sent.
CREATE TABLE webhooks (
    tenant text NOT NULL,
    id text NOT NULL,
    url text NOT NULL,
    event_types text[] NOT NULL,
    secret_name text NOT NULL,
    created_by text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, id)
);

-- One event for one webhook, and how far it has come.
CREATE TABLE webhook_deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    webhook_id text NOT NULL,
    message_id text NOT NULL,
    event_type text NOT NULL,
    body text NOT NULL,
    state text NOT NULL DEFAULT 'pending',
    attempt_count integer NOT NULL DEFAULT 0,
    next_attempt_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_status_code integer NOT NULL DEFAULT 0,
    last_error text NOT NULL DEFAULT '',
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (tenant, webhook_id, message_id),
    FOREIGN KEY (tenant, webhook_id) REFERENCES webhooks ON DELETE CASCADE
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_attempt_time)
WHERE state = 'pending';
CREATE INDEX webhook_deliveries_by_tenant ON webhook_deliveries (tenant, id DESC);
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (create_time);
