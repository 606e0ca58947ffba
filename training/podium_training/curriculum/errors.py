"""What cannot be put in order."""


class NoCurriculum(ValueError):
    """The stream lacks episodes of a kind that every step needs; the message says which."""
