"""Metrics of a run's steps, gauges, and its progress."""
