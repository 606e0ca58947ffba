"""Answers of models that are given again (docs/adr/0067)."""
