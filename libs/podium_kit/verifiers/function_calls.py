"""The answer names the function calls that should be made, as JSON.

Source: the AST rules of the Berkeley Function Calling Leaderboard: every expected call
once, in any order; each argument one of the allowed values, where "" among them means it
may be left out; strings compared without case, spaces and the marks ,./-_*^; numbers by value.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from podium_kit.verifiers.verifier import Verdict, Verifier

# One function: by argument: the allowed values.
ExpectedCall = Annotated[dict[str, dict[str, list[Any]]], Field(min_length=1, max_length=1)]
LEFT_OUT = ""
_MARKS = re.compile(r"[ ,./\-_*^]")
_FENCE = re.compile(r"^```\w*\n|\n?```$")


class WrittenCall(BaseModel):
    """A call as the model writes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    arguments: dict[str, Any] = {}


_CALLS = TypeAdapter(list[WrittenCall])


class FunctionCalls(Verifier):
    """Accepts exactly the expected calls; none expected: an answer that makes none."""

    name: ClassVar[str] = "function_calls"
    version: ClassVar[str] = "1"

    expected: tuple[ExpectedCall, ...]

    def judge(self, answer: str, results: Sequence[str] = ()) -> Verdict:
        """1 if every expected call is there and no other."""
        try:
            written = _CALLS.validate_json(_FENCE.sub("", answer.strip()))
        except ValidationError:
            # Somebody who explains why no function fits makes no call either.
            return Verdict.of(not self.expected, "the answer is no JSON list of calls")
        if len(written) != len(self.expected):
            return Verdict.of(False, f"{len(written)} calls, expected {len(self.expected)}")
        right = _paired(written, self.expected)
        return Verdict.of(right, "as expected" if right else "some call is not as expected")


def _paired(written: Sequence[WrittenCall], expected: Sequence[ExpectedCall]) -> bool:
    """Whether each expected call can be given one of its own; several may fit one call.

    Source: Kuhn's algorithm; trying all orders of a dozen alike calls takes minutes.
    """
    fits = [[_matches(call, each) for call in written] for each in expected]
    given: dict[int, int] = {}

    def give(wanted: int, tried: set[int]) -> bool:
        for place, fitting in enumerate(fits[wanted]):
            if fitting and place not in tried:
                tried.add(place)
                if place not in given or give(given[place], tried):
                    given[place] = wanted
                    return True
        return False

    return all(give(wanted, set()) for wanted in range(len(expected)))


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
            return _plain(found) == _plain(wanted)
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


def _plain(text: str) -> str:
    return _MARKS.sub("", text).casefold().replace("'", '"')
