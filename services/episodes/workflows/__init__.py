"""Temporal: the workflow of an episode that waits or is long, and its activities."""
