-- What sandboxed code of an episode keeps between its calls: an archive in pieces, stored by their
-- SHA-256, once for each tenant however many workspaces need them.
CREATE TABLE workspaces (
    tenant text NOT NULL,
    episode_id text NOT NULL,
    revision text NOT NULL,
    save_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, episode_id)
);
CREATE INDEX workspaces_by_age ON workspaces (save_time);
CREATE TABLE workspace_blobs (
    tenant text NOT NULL,
    digest bytea NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (tenant, digest)
);
CREATE TABLE workspace_pieces (
    tenant text NOT NULL,
    episode_id text NOT NULL,
    ordinal integer NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (tenant, episode_id, ordinal),
    FOREIGN KEY (tenant, episode_id) REFERENCES workspaces ON DELETE CASCADE,
    FOREIGN KEY (tenant, digest) REFERENCES workspace_blobs
);
CREATE INDEX workspace_pieces_by_digest ON workspace_pieces (tenant, digest);
