"""Descriptions proposed by a model from past episodes, and their review."""
