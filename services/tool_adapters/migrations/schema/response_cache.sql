-- Answers of language models that are given again for the same request, by the digest of the request. They are bounded
-- by the quotas of the tenant's policies and the operator's; the oldest make room, and what has expired is swept.
CREATE TABLE response_cache (
    tenant text NOT NULL,
    policy text NOT NULL,
    digest bytea NOT NULL,
    -- Who asked first.
    subject text NOT NULL,
    answer bytea NOT NULL,
    size_bytes bigint NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    expire_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, policy, digest)
);
CREATE INDEX response_cache_by_tenant ON response_cache (tenant, create_time);
CREATE INDEX response_cache_by_expiry ON response_cache (expire_time);
