"""Episodes as their callers see them: start, read, watch, cancel, feedback."""
