"""Plays the known solutions of tasks as a model would, so that episodes show them to a policy."""
