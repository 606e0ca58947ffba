"""How a check says that something does not hold."""


class NotSo(Exception):
    """What was found instead."""


def require(holds: bool, found: str) -> None:
    """Raises NotSo."""
    if not holds:
        raise NotSo(found)
