"""PostgreSQL for services: engines and their errors, leadership, migrations."""
