"""Limits on time, concurrency and size that tenants share."""
