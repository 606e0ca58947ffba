from podium_kit.postgres.migrations import run_migrations_in_env

run_migrations_in_env()
