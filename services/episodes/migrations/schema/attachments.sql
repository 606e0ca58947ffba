-- Bytes of files that came with an episode or a direct call, which owns them. Images and PDF files are
-- compressed already.
CREATE TABLE attachments (
    tenant text NOT NULL,
    owner_id uuid NOT NULL,
    digest bytea NOT NULL,
    data bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (owner_id, tenant, digest)
);
ALTER TABLE attachments ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX attachments_by_digest ON attachments (tenant, digest);
