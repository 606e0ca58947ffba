"""Toolsets of episodes: what a policy allows, with prices and measurements."""
