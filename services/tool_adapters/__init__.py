"""Calls tools: one adapter per kind; limits, isolation, breakers and usage are shared."""
