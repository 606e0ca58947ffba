"""Durable episodes: one Temporal workflow each, a keyed step log, a trajectory stream."""
