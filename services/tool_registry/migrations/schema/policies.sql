CREATE TABLE policies (
    tenant text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    spec bytea NOT NULL,
    digest text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL,
    -- When the version first decided what an episode or a call may use; one that never did may be
    -- deleted.
    use_time timestamptz,
    PRIMARY KEY (tenant, name, version),
    UNIQUE (tenant, name, digest)
);

-- Which version is active from when on; the newest effective one counts.
CREATE TABLE policy_activations (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    effective_time timestamptz NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL
);
CREATE INDEX policy_activations_by_tenant ON policy_activations (tenant, effective_time);

-- The principals that a policy binds, whatever policy their requests name.
CREATE TABLE policy_bindings (
    tenant text NOT NULL,
    principal text NOT NULL,
    policy text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL,
    PRIMARY KEY (tenant, principal, policy)
);
CREATE INDEX policy_bindings_by_policy ON policy_bindings (tenant, policy);

-- What cycles of learning came to. Of `promoted` and `rolled_back` the newest says which model
-- answers a policy's episodes that name none.
CREATE TABLE learning_steps (
    sequence bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    tenant text NOT NULL,
    policy text NOT NULL,
    cycle uuid NOT NULL,
    stage text NOT NULL,
    model text NOT NULL,
    summary text NOT NULL,
    facts jsonb NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL,
    PRIMARY KEY (tenant, policy, cycle, stage)
);
CREATE INDEX learning_steps_by_policy ON learning_steps (tenant, policy, sequence);
