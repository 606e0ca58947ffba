"""The cost of parsing JSON, counted before it is parsed.

A value of three bytes takes a hundred in memory, and every part of a body is turned into
Python objects and messages in an event loop that all tenants share.
"""

import re

MARKS_MAX = 100_000
DEPTH_MAX = 100
# Never fails once it has begun and never goes back, so it reads every byte once.
_PART = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]', re.DOTALL)
_MARKS = (b",", b"[", b"]", b"{", b"}")
_OPENING, _CLOSING, _QUOTE = b"[{", b"]}", b'"'[0]


class CostlyJson(ValueError):
    """The message says what the JSON has too much of."""


def require_bounded_json(body: bytes, marks_max: int = MARKS_MAX) -> None:
    marks, opened = sum(map(body.count, _MARKS)), body.count(b"[") + body.count(b"{")
    if marks <= marks_max and opened <= DEPTH_MAX:
        return
    marks = texts = depth = 0
    for part in _PART.finditer(body):
        first = body[part.start()]
        # JSON has a name and a value, or a value, between two marks.
        texts += first == _QUOTE
        marks += first != _QUOTE
        if marks > marks_max or texts > 2 * marks_max:
            raise CostlyJson(f"holds over {marks_max} commas and brackets")
        depth += (first in _OPENING) - (first in _CLOSING)
        if depth > DEPTH_MAX:
            raise CostlyJson(f"is nested more than {DEPTH_MAX} deep")
