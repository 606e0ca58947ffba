class NotSo(Exception):
    """What was found instead."""


def require(holds: bool, found: str) -> None:
    if not holds:
        raise NotSo(found)
