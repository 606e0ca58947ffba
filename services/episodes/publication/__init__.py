"""From an episode's end to its record on the trajectory topic."""
