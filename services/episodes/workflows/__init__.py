"""Deterministic workflow code: decisions only, no I/O."""
