"""Real tasks, solved by the running platform, and their results."""
