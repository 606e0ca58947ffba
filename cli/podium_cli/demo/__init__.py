"""Real tasks, solved by the running platform, and what came of them."""
