-- Bytes of files that came with an episode or a direct call, which owns them. Images and PDF files are
-- compressed already. `tokens` are the most that a model reads of a PDF file: 0 where they cannot be found out, NULL
-- before it is measured.
CREATE TABLE attachments (
    tenant text NOT NULL,
    owner_id uuid NOT NULL,
    digest bytea NOT NULL,
    data bytea NOT NULL,
    tokens bigint,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (owner_id, tenant, digest)
);
ALTER TABLE attachments ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX attachments_by_digest ON attachments (tenant, digest);

-- The files and bytes of a tenant, so that a quota is one row to read. Triggers count, because retention and erasure
-- delete rows as well.
CREATE TABLE attachment_use (
    tenant text PRIMARY KEY,
    files bigint NOT NULL,
    bytes bigint NOT NULL
);

CREATE FUNCTION count_attachment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO attachment_use AS u VALUES (NEW.tenant, 1, octet_length(NEW.data))
    ON CONFLICT (tenant) DO UPDATE SET files = u.files + 1, bytes = u.bytes + excluded.bytes;
    RETURN NULL;
END
$$;

CREATE FUNCTION discount_attachments() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- In one order, so that two who delete for many tenants do not wait for each other.
    PERFORM FROM attachment_use WHERE tenant IN (SELECT tenant FROM deleted) ORDER BY tenant FOR UPDATE;
    UPDATE attachment_use u SET files = u.files - d.files, bytes = u.bytes - d.bytes
    FROM (
        SELECT tenant, count(*) AS files, sum(octet_length(data)) AS bytes FROM deleted GROUP BY tenant
    ) d WHERE u.tenant = d.tenant;
    DELETE FROM attachment_use WHERE files = 0 AND tenant IN (SELECT tenant FROM deleted);
    RETURN NULL;
END
$$;

CREATE TRIGGER count_attachment AFTER INSERT ON attachments
    FOR EACH ROW EXECUTE FUNCTION count_attachment();
CREATE TRIGGER discount_attachments AFTER DELETE ON attachments REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION discount_attachments();
