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
