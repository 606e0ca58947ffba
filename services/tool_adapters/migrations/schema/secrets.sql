-- Secrets of tenants, and of users (subject). Each value has a key of its own, which a master key
-- outside of the database encrypts.
CREATE TABLE secrets (
    tenant text NOT NULL,
    subject text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    hosts text[] NOT NULL,
    key_id text NOT NULL,
    wrapped_key bytea NOT NULL,
    nonce bytea NOT NULL,
    ciphertext bytea NOT NULL,
    updated_by text NOT NULL,
    update_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, subject, name)
);
CREATE INDEX secrets_by_key ON secrets (key_id);
