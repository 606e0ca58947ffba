"""What a machine may not permit."""


class NotPossible(Exception):
    """This machine does not permit the fault, and why."""
