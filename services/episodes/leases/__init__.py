"""Work in PostgreSQL that is one worker's at a time: queues, and who works on them."""
