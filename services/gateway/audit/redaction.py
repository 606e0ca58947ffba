"""JSON without secrets, for the audit log.

Secrets travel by reference in every contract; this is the second line, for what people
put where it does not belong, like a literal Authorization header of an http tool.
"""

from typing import Any

import re2

from podium_kit.text import whole_characters

# In RE2, which reads a text once: a request is as long as its sender likes.
SECRET_NAME = re2.compile(
    r"(?i)secret|password|passwd|api[-_]?key|authorization|credential|cookie|bearer"
    r"|access[-_]?token"
)
# Recognised wherever they stand: our own keys, JWTs, and the usual key prefixes.
SECRET_TEXT = re2.compile(r"\bpod_[0-9a-f]{16}_\S+|\beyJ[\w-]+\.[\w-]+\.[\w-]*|\bsk-[\w-]{16,}")
REDACTED = "[redacted]"


def redacted(value: Any) -> Any:
    match value:
        case dict():
            return {name: _field(str(name), inner) for name, inner in value.items()}
        case list():
            return [redacted(inner) for inner in value]
        case str():
            return _without_secrets(value)
        case _:
            return value


def _without_secrets(text: str) -> str:
    # JSON can write half of a surrogate pair, which is no UTF-8; a role is a StrEnum, of which
    # RE2 cannot make an empty one.
    return str(SECRET_TEXT.sub(REDACTED, whole_characters(str(text))))


def _field(name: str, value: Any) -> Any:
    if isinstance(value, str) and value and SECRET_NAME.search(whole_characters(name)):
        return REDACTED
    return redacted(value)
