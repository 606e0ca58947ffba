"""Preference vectors with instructions that say the same, to learn from and to measure on."""

from podium_training.preferences.pairs import Pair, draw_pairs

__all__ = ["Pair", "draw_pairs"]
