CREATE INDEX tools_by_lower_name ON tools (lower(name));
