"""Child episodes: calls of tools of kind podium."""
