"""Checks of policies on the input and output of calls, and on answers (docs/adr/0066)."""
