"""Money of a call: its worst case, its hold and its cost."""
