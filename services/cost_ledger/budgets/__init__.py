"""Budgets, their windows, and alerts when a soft limit is passed."""
