LASTING, PASSING, STREAM_ENDED = 2, 1, 3
"""Exit statuses: the next attempt would meet the same, might not, would wait for records again."""


class Fault(RuntimeError):
    """A failure that every attempt meets until something is changed."""
