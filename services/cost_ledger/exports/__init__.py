"""Exports of charges, in the FOCUS format and as tables."""
