-- What the ledger rejects waits longer each time, and keeps nobody else's costs waiting.
ALTER TABLE embedding_costs
    ADD COLUMN attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN retry_time timestamptz,
    ADD COLUMN rejection text;
CREATE INDEX embedding_costs_by_tenant ON embedding_costs (tenant, create_time);
