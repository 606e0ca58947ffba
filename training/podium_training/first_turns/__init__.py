"""First turns of tasks that were not played: whom to ask under which vector."""
