"""Policies applied to finished episodes: dry runs and adherence."""
