CREATE TABLE api_keys (
    id text PRIMARY KEY,
    tenant text NOT NULL,
    subject text NOT NULL,
    scopes text[] NOT NULL,
    secret_hash bytea NOT NULL UNIQUE,
    create_time timestamptz NOT NULL,
    expire_time timestamptz,
    revoke_time timestamptz,
    roles text[] NOT NULL DEFAULT '{}',
    last_used_time timestamptz,
    successor_id text REFERENCES api_keys (id),
    -- Teams, which policies bind.
    teams text[] NOT NULL DEFAULT '{}',
    -- The first of the keys that rotations replaced by each other.
    origin_id text,
    -- Agents, whose budgets the key is charged to.
    agents text[] NOT NULL DEFAULT '{}',
    -- The people who had the text of the key besides its subject.
    creators text[] NOT NULL DEFAULT '{}'
);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant, id);

CREATE TABLE idempotency_keys (
    tenant text NOT NULL,
    key text NOT NULL,
    episode_id uuid NOT NULL,
    create_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (create_time);
