-- When a version first decided what an episode or a call may use; a version that never did may be
-- deleted. Of those that there are already nobody knows.
ALTER TABLE policies ADD COLUMN use_time timestamptz;
UPDATE policies SET use_time = clock_timestamp();
