-- A purged version keeps its row without a spec: its number is never given to other content.
CREATE TABLE tools (
    owner text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    spec bytea,
    digest text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL,
    deprecate_time timestamptz,
    change bigint NOT NULL DEFAULT 1,
    delete_time timestamptz,
    PRIMARY KEY (owner, name, version),
    UNIQUE (owner, name, digest)
);
CREATE INDEX tools_by_change ON tools (owner, change);
CREATE INDEX tools_by_name ON tools (name);
CREATE INDEX tools_by_lower_name ON tools (lower(name));
CREATE INDEX tools_deleted ON tools (delete_time) WHERE delete_time IS NOT NULL;

-- One row that every write bumps: readers keep what they have while it stands still.
CREATE TABLE catalogue_version (
    version bigint NOT NULL,
    facts_version bigint NOT NULL DEFAULT 1
);
INSERT INTO catalogue_version VALUES (1);

-- Tools that the adapters keep up to date.
CREATE TABLE followed_tools (
    server_id uuid PRIMARY KEY,
    owner text NOT NULL,
    name_prefix text NOT NULL,
    common bytea NOT NULL,
    allowed_by text NOT NULL,
    update_time timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX followed_tools_by_owner ON followed_tools (owner);

CREATE TABLE tool_facts (
    owner text NOT NULL,
    tool_name text NOT NULL,
    model_alias text NOT NULL,
    reporter text NOT NULL,
    tenant text NOT NULL,
    facts bytea NOT NULL,
    report_time timestamptz NOT NULL,
    PRIMARY KEY (owner, tool_name, model_alias, reporter, tenant)
);
CREATE INDEX tool_facts_by_age ON tool_facts (report_time);

CREATE TABLE description_proposals (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    tool_name text NOT NULL,
    tool_version integer NOT NULL,
    model_alias text NOT NULL,
    current_description text NOT NULL,
    proposed_description text NOT NULL,
    writer_tool text NOT NULL,
    episode_ids text[] NOT NULL,
    succeeded_count integer NOT NULL,
    state text NOT NULL DEFAULT 'pending',
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL,
    reviewed_by text NOT NULL DEFAULT ''
);
CREATE INDEX description_proposals_by_tenant ON description_proposals (tenant, id);
