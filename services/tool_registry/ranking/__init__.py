"""Ranking of tools by a query or a task."""
