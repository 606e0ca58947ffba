"""Episodes and direct calls in PostgreSQL queues, leased by one worker at a time."""
