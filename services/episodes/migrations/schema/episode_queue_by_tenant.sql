-- Whose episode it is, so that a tenant with a thousand episodes does not take all places. Servers of the version
-- before leave it empty: together their episodes are one more tenant.
ALTER TABLE episode_queue ADD COLUMN tenant text NOT NULL DEFAULT '';
CREATE INDEX episode_queue_by_tenant ON episode_queue (tenant, due_time);
-- What is worked on is little, however much waits.
CREATE INDEX episode_queue_held ON episode_queue (tenant, due_time) WHERE holder <> '';
UPDATE episode_queue q SET tenant = e.tenant FROM episodes e WHERE e.id = q.episode_id;
