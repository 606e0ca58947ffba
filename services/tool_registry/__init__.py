"""Tools and their immutable versions, preference policies, and what an episode may use."""
