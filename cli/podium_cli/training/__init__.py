"""Rollouts of `podium train`: run through the gateway, and shown."""
