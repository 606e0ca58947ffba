"""Checks that a request passes before its episode has a row."""
