"""Values of secrets that a call used, which what it answers must not repeat.

Each call has its own: no call is shown without what another used, so that no tenant blanks words in
another's answers, or learns from a blank which of its guesses is another's secret.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from podium_kit.characters import whole_characters

REDACTED = "[secret]"
# Shorter values would also be found in words that are no secret.
REDACTED_LENGTH_MIN = 6
# Strings and numbers of a JSON document; possessive, so that a text is read once.
_LITERAL = re.compile(r'"(?:[^"\\]++|\\.)*+"|-?+\d++(?:\.\d++)?+(?:[eE][+-]?+\d++)?+', re.DOTALL)
_used: ContextVar["UsedSecrets"] = ContextVar("used_secrets")


class UsedSecrets:
    """Values that were used within a block of code, and by the tasks that it started."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, value: str) -> None:
        if len(value) >= REDACTED_LENGTH_MIN:
            self._values.add(value)

    def update(self, others: "UsedSecrets") -> None:
        self._values |= others._values

    def redact(self, text: str) -> str:
        """The text without any of the values; what is JSON stays JSON."""
        if not self._values:
            return text
        return self.redact_json(text) if _is_json(text) else self._replaced(text)

    def redact_json(self, text: str) -> str:
        """A JSON document whose strings, names and numbers hold none of the values."""
        return _LITERAL.sub(lambda found: self._literal(found[0]), text) if self._values else text

    def redact_bytes(self, data: bytes) -> bytes:
        # A character for each byte, whatever they are; secrets travel in headers, so in ASCII.
        return self._replaced(data.decode("latin-1")).encode("latin-1") if self._values else data

    def _literal(self, literal: str) -> str:
        plain = json.loads(literal, strict=False) if literal.startswith('"') else literal
        redacted = self._replaced(plain)
        if redacted == plain:
            return literal
        # Half of a surrogate pair was escaped before.
        return whole_characters(json.dumps(redacted, ensure_ascii=False))

    def _replaced(self, text: str) -> str:
        # One may be a part of another, whose rest would stay.
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, REDACTED)
        return text


@contextmanager
def noting_secrets(used: UsedSecrets | None = None) -> Iterator[UsedSecrets]:
    """Notes what the block uses."""
    used = used or UsedSecrets()
    token = _used.set(used)
    try:
        yield used
    finally:
        _used.reset(token)


def used_secrets() -> UsedSecrets:
    """Secrets of the call that is being made; empty outside of one."""
    return _used.get(None) or UsedSecrets()


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
