-- The same rows as before (texts are equal under every deterministic collation if they are under
-- one), but no condition that the tables' indexes could serve. An update that joins the keys of its
-- rows could read every row of the tenants in scope by that condition and compare each with each
-- key: on small tables that looked cheaper, and a connection keeps such a plan for the millionth row.
ALTER POLICY of_tenants_in_scope ON ledger_head
USING (tenant COLLATE "C" = ANY (CAST((SELECT tenants_in_scope()) AS text[])));
ALTER POLICY of_tenants_in_scope ON hold
USING (tenant COLLATE "C" = ANY (CAST((SELECT tenants_in_scope()) AS text[])));
ALTER POLICY of_tenants_in_scope ON budget_window
USING (tenant COLLATE "C" = ANY (CAST((SELECT tenants_in_scope()) AS text[])));
