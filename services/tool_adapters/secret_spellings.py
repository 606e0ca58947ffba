"""One pattern for secrets in every spelling that a server's encoders give them.

It runs in RE2, which reads a text once, however many secrets it looks for.
"""

import base64
import html.entities
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import re2

# Of all secrets together. Each costs some 100 µs to compile, while the whole process stands still.
SPELLED_CHARACTERS_MAX = 512
# Of what is beyond, these are looked for as they are: most encoders leave them alone.
_LEFT_ALONE = re.compile("[0-9A-Za-z._~-]")
# Of all secrets together, too: what is beyond is not looked for in base64.
BASE64_CHARACTERS_MAX = 4_096
# A long secret is several, each of which RE2 can follow.
PART_CHARACTERS_MAX = 512
PATTERN_BYTES_MAX = 256 * 1024 * 1024
_CONTROLS = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_NAMES: dict[str, list[str]] = {}
for _name, _character in html.entities.html5.items():
    if _name.endswith(";"):
        _NAMES.setdefault(_character, []).append(_name)


def pattern_of(values: Iterable[str]) -> Any:
    """Finds each value in bytes: as it is, in base64, and escaped as text of JSON or JavaScript,
    a URL or HTML, also several times. Neighbours are found as one."""
    left, left_of_base64 = SPELLED_CHARACTERS_MAX, BASE64_CHARACTERS_MAX
    alternatives: list[str] = []
    # A short secret is spelled before a long one.
    for value in sorted(values, key=len):
        for part in _parts(value):
            choices = part, _LEFT_ALONE.sub("", part), ""
            spelled = next(each for each in choices if len(each) <= left)
            left -= len(spelled)
            alternatives.append(
                "".join((_spelled if each in spelled else _plain)(each) for each in part)
            )
        if len(value) > left_of_base64:
            continue
        left_of_base64 -= len(value)
        for encoded in _in_base64(value.encode(errors="surrogatepass")):
            others = len(_LEFT_ALONE.sub("", encoded))
            alternatives.append(_base64_pattern(encoded, _spelled if others <= left else _plain))
            left -= others if others <= left else 0
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    # A character for each byte, whatever they are.
    options.encoding = re2.Options.Encoding.LATIN1
    # Of two that begin alike the longer one is found.
    return re2.compile(f"(?:{'|'.join(reversed(alternatives))})+".encode(), options)


def _parts(value: str) -> Iterator[str]:
    """Of about the same length: a short rest would be found in other words."""
    count = -(-len(value) // PART_CHARACTERS_MAX)
    size = -(-len(value) // count)
    return (value[start : start + size] for start in range(0, len(value), size))


def _in_base64(raw: bytes) -> Iterator[str]:
    """What is the same whatever comes before and after, after 0, 1 or 2 bytes of a group."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw).decode()
        whole = (before + len(raw)) * 8 // 6
        yield encoded[-(-before * 8 // 6) : whole]


@lru_cache(4096)
def _plain(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogatepass"))


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
    ways.append("".join(f"%(?:25)*{_hex(octet, 2)}" for octet in octets))
    names = "".join(f"|{name[:-1]}" for name in _NAMES.get(character, []))
    ways.append(f"&(?:amp;)*(?:#0*{code}|#[xX]0*{_hex(code)}{names});?")
    if character in _CONTROLS:
        ways.append(rf"\\+{_CONTROLS[character]}")
    if character == " ":
        ways.append(r"\+")
    return f"(?:{'|'.join(ways)})"


def _base64_pattern(encoded: str, spell: Callable[[str], str]) -> str:
    """In both alphabets; only what no encoder leaves alone may be escaped."""
    others = {"+": "-", "/": "_"}
    return "".join(
        f"(?:{spell(each)}|{others[each]})" if each in others else each for each in encoded
    )


def _hex(number: int, digits: int = 1) -> str:
    return "".join(
        f"[{digit}{digit.upper()}]" if digit.isalpha() else digit
        for digit in f"{number:0{digits}x}"
    )
