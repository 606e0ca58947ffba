-- NULL: what the episodes' service allows every tenant.
ALTER TABLE tenant_limits ADD COLUMN files bigint;
ALTER TABLE tenant_limits ADD COLUMN file_bytes bigint;
