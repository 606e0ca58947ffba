"""Imitation: known solutions, served as a model, and the adapters that are tuned on them."""
