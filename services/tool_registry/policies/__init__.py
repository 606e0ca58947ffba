"""Preference policies: versions, presets and the rules that decide."""
