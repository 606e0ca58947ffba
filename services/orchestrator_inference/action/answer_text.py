"""The final answer inside an action, read while the action is written.

Reads what `parser` reads of a reply under the grammar: the text under "answer" in the first JSON
object. An answer that is no text is never shown.
"""

import re
from collections.abc import Callable

from podium_kit.text import storable, whole_characters

_SYMBOL = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^"{}\[\],:]+', re.DOTALL)
# The parts of a JSON string: plain characters, and escapes.
_PIECE = re.compile(r'[^"\\]+|\\u[0-9a-fA-F]{4}|\\[^u]', re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_KEY = '"answer"'


class AnswerText:
    """Gets a reply piece by piece, and reports what each one adds to the answer."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._reply = _WholeCharacters()
        self._answer = _WholeCharacters()
        self._unread = ""
        self._depth = 0
        self._last = ""
        self._is_key = False
        self._in_answer = False
        self._ended = False

    def add(self, piece: str) -> None:
        self._unread += whole_characters(self._reply.add(piece))
        if not self._in_answer:
            self._find_answer()
        if self._in_answer and not self._ended:
            self._show(self._answer.add(self._decoded()))

    def end(self) -> None:
        """Reports the half of a character that waited for its other half."""
        self._show(self._answer.rest())

    def _show(self, text: str) -> None:
        if text:
            self._report(storable(text))

    def _find_answer(self) -> None:
        at = 0
        if not self._depth:
            at = self._unread.find("{")
            at = len(self._unread) if at < 0 else at
        while not self._in_answer and at < len(self._unread):
            if self._is_key and self._unread[at] == '"' and self._last == _KEY:
                self._in_answer = True
                at += 1
                break
            symbol = _SYMBOL.match(self._unread, at)
            if symbol is None:
                break  # a string that is not whole yet
            self._read(symbol[0])
            at = symbol.end()
        self._unread = self._unread[at:]

    def _read(self, symbol: str) -> None:
        if symbol in "{[":
            self._depth += 1
        elif symbol in "}]":
            self._depth -= 1
            self._ended = self._depth == 0
        if symbol.isspace():
            return
        self._is_key = symbol == ":" and self._depth == 1
        if symbol != ":":
            self._last = symbol

    def _decoded(self) -> str:
        decoded, at = [], 0
        while piece := _PIECE.match(self._unread, at):
            decoded.append(_meaning(piece[0]))
            at = piece.end()
        self._ended = self._unread[at : at + 1] == '"'
        self._unread = self._unread[at:]
        return "".join(decoded)


class _WholeCharacters:
    """Holds a high surrogate at the end of a text back until what follows it has come."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, text: str) -> str:
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return text[: len(text) - len(self._half)]

    def rest(self) -> str:
        return self._half


def _meaning(piece: str) -> str:
    if piece[0] != "\\":
        return piece
    if piece[1] == "u":
        return chr(int(piece[2:], 16))
    return _ESCAPED.get(piece[1], piece[1])
