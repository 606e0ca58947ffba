"""PostgreSQL for services: migrations."""
