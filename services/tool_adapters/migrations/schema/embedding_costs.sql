-- What vectors of corpora used, until the ledger has it. A row is there before the endpoint is asked;
-- usage is a podium.common.v1.Usage, NULL until the endpoint has answered.
CREATE TABLE embedding_costs (
    key text PRIMARY KEY,
    tenant text NOT NULL,
    subject text NOT NULL,
    corpus text NOT NULL,
    sku text NOT NULL,
    usage bytea,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX embedding_costs_by_age ON embedding_costs (create_time);
