"""Deletes the data of a tenant, or of one of its users, with a receipt (docs/adr/0042)."""
