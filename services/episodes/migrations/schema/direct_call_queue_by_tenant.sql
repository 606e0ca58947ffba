-- Whose call it is, so that a tenant with a thousand calls does not take all places. Servers of the version before
-- leave it empty: together their calls are one more tenant.
ALTER TABLE direct_call_queue ADD COLUMN tenant text NOT NULL DEFAULT '';
CREATE INDEX direct_call_queue_by_tenant ON direct_call_queue (tenant, due_time);
-- What is being made is little, however much waits.
CREATE INDEX direct_call_queue_held ON direct_call_queue (tenant, due_time) WHERE holder <> '';
UPDATE direct_call_queue q SET tenant = d.tenant FROM direct_calls d WHERE d.id = q.call_id;
