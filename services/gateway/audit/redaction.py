"""JSON without secrets, for the audit log.

Secrets travel by reference in every contract; this is the second line, for what people
put where it does not belong, like a literal Authorization header of an http tool.
"""

import re
from typing import Any

SECRET_NAME = re.compile(
    r"secret|password|passwd|api[-_]?key|authorization|credential|cookie|bearer|access[-_]?token",
    re.IGNORECASE,
)
# Recognised wherever they stand: our own keys, JWTs, and the usual key prefixes.
SECRET_TEXT = re.compile(r"\bpod_[0-9a-f]{16}_\S+|\beyJ[\w-]+\.[\w-]+\.[\w-]*|\bsk-[\w-]{16,}")
REDACTED = "[redacted]"


def redacted(value: Any) -> Any:
    """The value with every text redacted that has a secret's name or looks like one."""
    match value:
        case dict():
            return {name: _field(str(name), inner) for name, inner in value.items()}
        case list():
            return [redacted(inner) for inner in value]
        case str():
            return SECRET_TEXT.sub(REDACTED, value)
        case _:
            return value


def _field(name: str, value: Any) -> Any:
    if isinstance(value, str) and value and SECRET_NAME.search(name):
        return REDACTED
    return redacted(value)
