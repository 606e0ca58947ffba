"""The trained policy and how packed rows run through it."""
