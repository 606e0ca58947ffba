CREATE TABLE audit_entry (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    subject text NOT NULL,
    credential text NOT NULL,
    action text NOT NULL,
    resource text NOT NULL,
    request_id text NOT NULL,
    requested json NOT NULL,
    before json,
    time timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX audit_entry_by_tenant ON audit_entry (tenant, id DESC);

CREATE TABLE audit_outcome (
    entry_id uuid PRIMARY KEY REFERENCES audit_entry (id),
    rejection text NOT NULL,
    after json,
    time timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION reject_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entry
FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_outcome
FOR EACH STATEMENT EXECUTE FUNCTION reject_change();
