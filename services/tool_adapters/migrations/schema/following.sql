-- MCP servers whose lists of tools are followed, and the process that follows each. The empty
-- owner is the platform. `listed` holds what the registry received last: digests of specs by
-- tool name, empty before the first time.
CREATE TABLE followed_servers (
    id uuid PRIMARY KEY,
    owner text NOT NULL,
    definition bytea NOT NULL,
    listed jsonb NOT NULL DEFAULT '{}',
    problem text NOT NULL DEFAULT '',
    follower text NOT NULL DEFAULT '',
    lease_expire_time timestamptz NOT NULL DEFAULT '-infinity',
    create_time timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX followed_servers_by_owner ON followed_servers (owner, id);
