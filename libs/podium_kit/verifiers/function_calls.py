"""The answer names the function calls that should be made, as JSON.

Source: the AST rules of the Berkeley Function Calling Leaderboard: every expected call
once, in any order; each argument one of the allowed values, where "" among them means it
may be left out; strings compared without case, spaces and the marks ,./-_*^; numbers by value.
With the functions' declarations, types and required arguments are the leaderboard's as well.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from podium_kit.verifiers.declared_calls import (
    LEFT_OUT,
    Declaration,
    ExpectedCall,
    WrittenCall,
    declared_call_fits,
    plain,
)
from podium_kit.verifiers.verifier import Verdict, Verifier

_FENCE = re.compile(r"^```\w*\n|\n?```$")


_CALLS = TypeAdapter(list[WrittenCall])


class FunctionCalls(Verifier):
    """Accepts exactly the expected calls; none expected: an answer that makes none."""

    name: ClassVar[str] = "function_calls"
    version: ClassVar[str] = "2"

    expected: tuple[ExpectedCall, ...]
    functions: tuple[Declaration, ...] = ()

    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        try:
            written = _CALLS.validate_json(_FENCE.sub("", answer.strip()))
        except ValidationError:
            # Someone who explains why no function fits makes no call either.
            return Verdict.of(not self.expected, "the answer is no JSON list of calls")
        if len(written) != len(self.expected):
            return Verdict.of(False, f"{len(written)} calls, expected {len(self.expected)}")
        right = self._paired(written)
        return Verdict.of(right, "as expected" if right else "some call is not as expected")

    def _paired(self, written: Sequence[WrittenCall]) -> bool:
        declared = {function.name: function for function in self.functions}
        left = list(written)
        for wanted in self.expected:
            [name] = wanted
            fits = partial(declared_call_fits, declared[name]) if name in declared else _matches
            fitting = next((at for at, call in enumerate(left) if fits(call, wanted)), None)
            if fitting is None:
                return False
            del left[fitting]
        return True


def _matches(call: WrittenCall, wanted: ExpectedCall) -> bool:
    [(name, arguments)] = wanted.items()
    return call.name == name and _fields(call.arguments, arguments)


def _fields(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    # Inside a nested object the benchmark sometimes gives one value, not a list of them.
    allowed = {name: each if isinstance(each, list) else [each] for name, each in wanted.items()}
    if not found.keys() <= allowed.keys():
        return False
    missing = allowed.keys() - found.keys()
    return all(LEFT_OUT in allowed[name] for name in missing) and all(
        any(_equal(value, each) for each in allowed[name]) for name, value in found.items()
    )


def _equal(found: Any, wanted: Any) -> bool:
    match found, wanted:
        case str(), str():
            return plain(found) == plain(wanted)
        case bool(), _:
            return found is wanted
        case int() | float(), int() | float():
            return not isinstance(wanted, bool) and found == wanted
        case list(), list():
            same = len(found) == len(wanted)
            return same and all(map(_equal, found, wanted))
        case dict(), dict():
            return _fields(found, wanted)
        case _:
            return bool(found == wanted)
