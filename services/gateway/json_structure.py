"""What a JSON body would cost to parse, counted before it is parsed.

A value of three bytes takes a hundred in memory, and every part of a body is turned into
Python objects and messages in the event loop that all tenants share.
"""

import re

from gateway.errors import MalformedRequest

MARKS_MAX = 100_000
DEPTH_MAX = 100
# Never fails once it has begun and never goes back, so it reads every byte once.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_MARKS = (b",", b"[", b"]", b"{", b"}")


def require_bounded_json(body: bytes) -> None:
    """Raises MalformedRequest."""
    bare = _STRING.sub(b"", body)
    if sum(map(bare.count, _MARKS)) > MARKS_MAX:
        raise MalformedRequest(
            f"the JSON holds over {MARKS_MAX} commas and brackets; send less at once"
        )
    depth = 0
    for bracket in _BRACKET.findall(bare):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEPTH_MAX:
            raise MalformedRequest(f"the JSON is nested more than {DEPTH_MAX} deep; flatten it")
