"""One call of a tool: attempts, limits, idempotent effects, measurements."""
