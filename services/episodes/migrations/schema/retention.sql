-- What forgetting looks for: the oldest that ended, a group's records, and who still refers to a body.
CREATE INDEX episodes_ended ON episodes (end_time) WHERE end_time IS NOT NULL;
CREATE INDEX outbox_by_group ON outbox (tenant, group_id);
CREATE INDEX steps_by_digest ON steps (digest);
CREATE INDEX outbox_by_digest ON outbox (digest);
CREATE INDEX episodes_by_toolset ON episodes (toolset_digest);
