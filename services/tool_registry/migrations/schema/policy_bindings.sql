-- Whom which policy binds, whatever policy they name.
CREATE TABLE policy_bindings (
    tenant text NOT NULL,
    principal text NOT NULL,
    policy text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL,
    PRIMARY KEY (tenant, principal, policy)
);
CREATE INDEX policy_bindings_by_policy ON policy_bindings (tenant, policy);
