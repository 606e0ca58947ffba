"""Backups of the services' databases, and how they come back (docs/adr/0040)."""
