-- Sign-ins of people to the console.
CREATE TABLE console_sessions (
    -- SHA-256 of the cookie's secret.
    digest bytea PRIMARY KEY,
    tenant text NOT NULL,
    subject text NOT NULL,
    -- As the audit log names it.
    credential text NOT NULL,
    -- The key that was used to sign in, which is read again at each request.
    key_id text,
    -- Of a person whom an identity provider signed in.
    scopes text[] NOT NULL,
    groups text[] NOT NULL,
    create_time timestamptz NOT NULL,
    last_used_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL
);
CREATE INDEX console_sessions_by_subject ON console_sessions (tenant, subject, create_time);
CREATE INDEX console_sessions_by_end ON console_sessions (expire_time);
