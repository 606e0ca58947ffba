"""Activities: everything an episode does to the world."""
