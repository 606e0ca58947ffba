"""HTTP itself: bodies and their limits, errors, streams, logs and health."""
