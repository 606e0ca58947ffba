"""The step log: what an episode has done so far, and watching it."""
