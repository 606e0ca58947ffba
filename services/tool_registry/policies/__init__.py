"""Preference policies: versions, presets, decisions on calls, history."""
