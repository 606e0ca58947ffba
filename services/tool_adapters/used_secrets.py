"""Values of secrets that a call used, which what it answers must not repeat.

Each call has its own: no call is shown without what another used, so that no tenant blanks words in
another's answers, or learns from a blank which of its guesses is another's secret.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from podium_kit.text import whole_characters
from tool_adapters.secret_spellings import SecretPattern

REDACTED = "[secret]"
# Shorter values would also be found in words that are no secret.
REDACTED_LENGTH_MIN = 6
# More than a call has; a session that gets token after token keeps the latest.
VALUES_MAX = 100
# Strings and numbers of a JSON document; possessive, so that a text is read once.
_LITERAL = re.compile(r'"(?:[^"\\]++|\\.)*+"|-?+\d++(?:\.\d++)?+(?:[eE][+-]?+\d++)?+', re.DOTALL)
_used: ContextVar["UsedSecrets"] = ContextVar("used_secrets")


class UsedSecrets:
    """Values that were used within a block of code, and by the tasks that it started."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}
        self._pattern: SecretPattern | None = None

    def add(self, value: str) -> None:
        if len(value) < REDACTED_LENGTH_MIN:
            return
        if value not in self._values:
            self._pattern = None
        self._values.pop(value, None)
        self._values[value] = None
        if len(self._values) > VALUES_MAX:
            del self._values[next(iter(self._values))]

    def update(self, others: "UsedSecrets") -> None:
        for value in others._values:
            self.add(value)

    def redact(self, text: str) -> str:
        """The text without any of the values; what is JSON stays JSON."""
        if not self._values:
            return text
        return self.redact_json(text) if _is_json(text) else self._replaced(text)

    def redact_json(self, text: str) -> str:
        """A JSON document whose strings, names and numbers hold none of the values."""
        # Without escapes, what a string says is what the document says.
        if not self._values or ("\\" not in text and not self._found(text)):
            return text
        return _LITERAL.sub(lambda found: self._literal(found[0]), text)

    def redact_bytes(self, data: bytes) -> bytes:
        return self._compiled().sub(REDACTED.encode(), data) if self._values else data

    def _literal(self, literal: str) -> str:
        escaped = "\\" in literal
        plain = json.loads(literal, strict=False) if escaped else literal.strip('"')
        if not self._found(plain):
            return literal
        # Half of a surrogate pair was escaped before.
        return whole_characters(json.dumps(self._replaced(plain), ensure_ascii=False))

    def _found(self, text: str) -> bool:
        return self._compiled().search(text.encode(errors="surrogatepass"))

    def _replaced(self, text: str) -> str:
        data = self.redact_bytes(text.encode(errors="surrogatepass"))
        return data.decode(errors="surrogatepass")

    def _compiled(self) -> SecretPattern:
        if self._pattern is None:
            self._pattern = SecretPattern(self._values)
        return self._pattern


@contextmanager
def noting_secrets(used: UsedSecrets | None = None) -> Iterator[UsedSecrets]:
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
