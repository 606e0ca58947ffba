-- What vectors of corpora and priced guardrails used, until the ledger has it. A row is there before the endpoint is asked;
-- usage is a podium.common.v1.Usage, NULL until the endpoint has answered.
CREATE TABLE adapter_costs (
    key text PRIMARY KEY,
    tenant text NOT NULL,
    subject text NOT NULL,
    tool text NOT NULL,
    sku text NOT NULL,
    usage bytea,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- A cost that the ledger rejects waits longer each time, and delays no other tenant's.
    attempts integer NOT NULL DEFAULT 0,
    retry_time timestamptz,
    rejection text,
    -- Money is held under the key before anything is bought; an unused cost gives it back.
    held boolean NOT NULL DEFAULT false,
    unused boolean NOT NULL DEFAULT false
);
CREATE INDEX adapter_costs_by_age ON adapter_costs (create_time);
CREATE INDEX adapter_costs_by_tenant ON adapter_costs (tenant, create_time);

-- Vectors that were bought for documents that are not stored yet: whoever sends them again buys the rest alone. They go
-- once the documents are stored, or after a day. The digest is the text's SHA-256, the vector as in passages.
CREATE TABLE bought_vectors (
    tenant text NOT NULL,
    model text NOT NULL,
    digest bytea NOT NULL,
    vector bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, model, digest)
);
CREATE INDEX bought_vectors_by_age ON bought_vectors (create_time);
