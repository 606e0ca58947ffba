"""The audit log of administrative changes."""
