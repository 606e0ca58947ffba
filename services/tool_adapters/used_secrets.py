"""Values of secrets that a call used, which what it answers must not repeat.

Each call has its own: no call is shown without what another used, so that no tenant blanks words in
another's answers, or learns from a blank which of its guesses is another's secret.
"""

import base64
import html.entities
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import re2

from podium_kit.text import whole_characters

# Of all secrets together. Each costs some 100 µs to compile, while the whole process stands still.
SPELLED_CHARACTERS_MAX = 512
# Of what is beyond, these are looked for as they are: most encoders leave them alone.
_LEFT_ALONE = re.compile("[0-9A-Za-z._~-]")
# Of all secrets together, too: what is beyond is not looked for in base64 and hexadecimal.
ENCODED_CHARACTERS_MAX = 3_072
# A long secret is several, each of which RE2 can follow.
PART_CHARACTERS_MAX = 512
# Of a part that is looked for as it is, RE2 finds the beginning: each character takes time to
# compile.
HEAD_BYTES = 8
# Encoders wrap base64 at a multiple of four columns.
_WRAPPED = r"(?:\s|\\+[rnt])*"
_BETWEEN_OCTETS = r"(?:\\+x|[ :])?"
PATTERN_BYTES_MAX = 256 * 1024 * 1024
_CONTROLS = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_NAMES: dict[str, list[str]] = {}
for _name, _character in html.entities.html5.items():
    if _name.endswith(";"):
        _NAMES.setdefault(_character, []).append(_name)
REDACTED = "[secret]"
# Shorter values would also be found in words that are no secret.
REDACTED_LENGTH_MIN = 6
# Characters of one character of a value, at most: as an HTML entity with zeros.
SPELLED_LENGTH_MAX = 12
_PRINTABLE = "".join(map(chr, range(ord("!"), ord("~") + 1)))
# More than a call has; a session that gets token after token keeps the latest.
VALUES_MAX = 100


class SecretPattern:
    """Finds each value in bytes: as it is, in base64 and hexadecimal, and escaped as text of JSON
    or JavaScript, CSV or SQL, a URL or HTML, also several times.

    Patterns run in RE2, which reads a text once, however many secrets it looks for.
    """

    def __init__(self, values: Iterable[str]) -> None:
        alternatives, plain = _alternatives(values)
        # Of two that begin alike the longer one is found.
        spelled = "|".join(reversed(alternatives))
        self.spelled = _compiled(f"(?:{spelled})+") if spelled else None
        self._parts: dict[bytes, list[bytes]] = {}
        length = min((HEAD_BYTES, *map(len, plain)))
        for part in sorted(plain, key=len, reverse=True):
            self._parts.setdefault(part[:length], []).append(part)
        heads = "|".join("".join(map(_octet, head)) for head in self._parts)
        self.heads = _compiled(heads) if heads else None

    def search(self, data: bytes) -> bool:
        return any(self._plain(data)) or bool(self.spelled and self.spelled.search(data))

    def sub(self, mark: bytes, data: bytes) -> bytes:
        """The data with the mark for each value; neighbours have one mark."""
        shown, end = [], 0
        for start, next_end in self._plain(data):
            shown += [data[end:start], mark]
            end = next_end
        data = b"".join([*shown, data[end:]])
        data = self.spelled.sub(mark, data) if self.spelled else data
        while shown and mark * 2 in data:
            data = data.replace(mark * 2, mark)
        return data

    def _plain(self, data: bytes) -> Iterator[tuple[int, int]]:
        at = 0
        while self.heads and (head := self.heads.search(data, at)):
            start = head.start()
            parts = (part for part in self._parts[head[0]] if data.startswith(part, start))
            if (part := next(parts, None)) is None:
                at = start + 1
            else:
                at = start + len(part)
                yield start, at


def _alternatives(values: Iterable[str]) -> tuple[list[str], list[bytes]]:
    left, left_of_encoded = SPELLED_CHARACTERS_MAX, ENCODED_CHARACTERS_MAX
    alternatives: list[str] = []
    plain: list[bytes] = []
    # A short secret is spelled before a long one.
    for value in sorted(values, key=len):
        for part in _parts(value):
            choices = part, _LEFT_ALONE.sub("", part), ""
            spelled = next(each for each in choices if len(each) <= left)
            left -= len(spelled)
            if not spelled:
                plain.append(part.encode(errors="surrogatepass"))
                continue
            alternatives.append(
                "".join((_spelled if each in spelled else _plain)(each) for each in part)
            )
        if len(value) > left_of_encoded:
            continue
        left_of_encoded -= len(value)
        raw = value.encode(errors="surrogatepass")
        for encoded, group in _in_base64(raw):
            others = len(_LEFT_ALONE.sub("", encoded))
            spell = _spelled if others <= left else _plain
            alternatives.append(_base64_pattern(encoded, group, spell))
            left -= others if others <= left else 0
        alternatives.append(_BETWEEN_OCTETS.join(_hex(octet, 2) for octet in raw))
    return alternatives, plain


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    # A character for each byte, whatever they are.
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(pattern.encode(), options)


def _parts(value: str) -> Iterator[str]:
    """Splits a value into parts of about one length: a short rest would match other words."""
    count = -(-len(value) // PART_CHARACTERS_MAX)
    size = -(-len(value) // count)
    return (value[start : start + size] for start in range(0, len(value), size))


def _in_base64(raw: bytes) -> Iterator[tuple[str, int]]:
    """The characters that are the same whatever comes before and after, after 0, 1 or 2 bytes of a
    group, and the place of the first of them in its group of four."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw).decode()
        whole, first = (before + len(raw)) * 8 // 6, -(-before * 8 // 6)
        yield encoded[first:whole], first


@lru_cache(4096)
def _plain(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    return "".join(map(_octet, character.encode(errors="surrogatepass")))


def _octet(octet: int) -> str:
    return f"\\x{octet:02x}"


@lru_cache(4096)
def _spelled(character: str) -> str:
    code = ord(character)
    ways = [rf"\\*{_plain(character)}"]
    units = character.encode("utf-16-be", "surrogatepass")
    words = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    ways += [
        "".join(rf"\\+[uUx]\{{?0*{_hex(number)}\}}?" for number in numbers)
        for numbers in (words, [code])
    ]
    octets = character.encode(errors="surrogatepass")
    for escape in ["%(?:25)*", r"\\+x"] if len(octets) > 1 else ["%(?:25)*"]:
        ways.append("".join(escape + _hex(octet, 2) for octet in octets))
    if character in "'\"`":
        ways.append(character * 2)
    names = "".join(f"|{name[:-1]}" for name in _NAMES.get(character, []))
    ways.append(f"&(?:amp;)*(?:#0*{code}|#[xX]0*{_hex(code)}{names});?")
    if character in _CONTROLS:
        ways.append(rf"\\+{_CONTROLS[character]}")
    if character == " ":
        ways.append(r"\+")
    return f"(?:{'|'.join(ways)})"


def _base64_pattern(encoded: str, first: int, spell: Callable[[str], str]) -> str:
    """Returns a pattern of both alphabets, wrapped or not; only characters that every encoder
    leaves alone stay unescaped.
    """
    others = {"+": "-", "/": "_"}
    return "".join(
        (_WRAPPED if at % 4 == 0 and at > first else "")
        + (f"(?:{spell(each)}|{others[each]})" if each in others else each)
        for at, each in enumerate(encoded, first)
    )


def _hex(number: int, digits: int = 1) -> str:
    return "".join(
        f"[{digit}{digit.upper()}]" if digit.isalpha() else digit
        for digit in f"{number:0{digits}x}"
    )


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

    def may_begin(self, text: str) -> int:
        """Length of the end of a text in which one of the values, or a form of it, may begin.

        Encoded values have no spaces, unless a base64 of several lines.
        """
        if not self._values:
            return 0
        spelled = text[-SPELLED_LENGTH_MAX * max(map(len, self._values)) :]
        unbroken = len(spelled) - len(spelled.rstrip(_PRINTABLE))
        return max(unbroken, *(_begun(value, text) for value in self._values))

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


def _begun(value: str, text: str) -> int:
    """Length of the beginning of a value with which a text ends."""
    lengths = range(min(len(value) - 1, len(text)), 0, -1)
    return next((length for length in lengths if text.endswith(value[:length])), 0)


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
