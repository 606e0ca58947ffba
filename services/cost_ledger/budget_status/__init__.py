"""Gauges of the whole ledger, over every tenant."""
