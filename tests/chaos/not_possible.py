class NotPossible(Exception):
    """This machine does not permit the fault, and why."""
