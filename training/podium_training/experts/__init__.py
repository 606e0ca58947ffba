"""Simulated experts: models of stated strength, price and latency that episodes may ask."""
