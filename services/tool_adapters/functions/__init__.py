"""Calls of the bundled functions in processes of their own."""
