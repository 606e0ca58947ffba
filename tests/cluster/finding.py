class NotSo(Exception):
    """Names what was found instead."""


def require(holds: bool, found: str) -> None:
    if not holds:
        raise NotSo(found)
