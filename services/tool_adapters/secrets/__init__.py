"""Secrets of tenants and users, encrypted in the database."""
