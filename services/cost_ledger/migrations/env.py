"""Alembic entry point."""

from rpckit.migrations import run_migrations_in_env

run_migrations_in_env()
