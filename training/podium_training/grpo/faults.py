"""How a run fails, for whoever would start it again."""

LASTING, PASSING, STREAM_ENDED = 2, 1, 3
"""Exit statuses: the next attempt would meet the same, might not, would wait for records again."""


class Fault(RuntimeError):
    """What every attempt fails with until something is changed."""
