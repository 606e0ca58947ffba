class NothingToLearn(ValueError):
    """The stream lacks episodes of a kind that is needed; the message says which."""
