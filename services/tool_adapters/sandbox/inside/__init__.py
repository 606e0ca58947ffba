"""Programs that run inside the sandbox, from the standard library alone; none protects us."""
