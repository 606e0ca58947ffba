"""Turns of an episode, from the model's decision to the episode's end."""
