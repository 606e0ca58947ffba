"""Decisions about operations: what each posts to the journal."""
