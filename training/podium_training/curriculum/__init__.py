"""Demonstrations in the order in which a run imitates them."""
