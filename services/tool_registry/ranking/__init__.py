"""Which tools fit words or a task best."""
