"""What runs inside the sandbox, from the standard library alone; nothing here protects us."""
