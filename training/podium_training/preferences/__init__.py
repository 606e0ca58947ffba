from podium_training.preferences.pairs import Pair, draw_pairs

__all__ = ["Pair", "draw_pairs"]
