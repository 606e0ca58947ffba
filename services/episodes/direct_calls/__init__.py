"""Calls of models without an episode (docs/adr/0035)."""
