"""Measured latency, success and cost of tools, merged over adapters."""
