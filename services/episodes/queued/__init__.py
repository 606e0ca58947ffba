"""Episodes that take turns without a workflow (docs/adr/0052)."""
