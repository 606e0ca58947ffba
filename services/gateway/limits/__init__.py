"""Limits per tenant: requests per second, open requests, running episodes."""
