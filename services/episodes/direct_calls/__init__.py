"""Calls of tools without an episode (docs/adr/0035)."""
