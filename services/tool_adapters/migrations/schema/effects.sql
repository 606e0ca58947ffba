-- Answers of calls with side effects, so that a key never acts twice.
CREATE TABLE effects (
    tenant text NOT NULL,
    key text NOT NULL,
    digest text NOT NULL,
    claim_id uuid NOT NULL,
    -- The lock of the process that makes the call.
    holder text NOT NULL,
    answer bytea,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, key)
);
CREATE INDEX effects_by_age ON effects (create_time);
