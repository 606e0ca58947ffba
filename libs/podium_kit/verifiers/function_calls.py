"""The answer names the function calls that should be made, as JSON.

Source: the AST rules of the Berkeley Function Calling Leaderboard: every expected call
once, in any order; each argument one of the allowed values, where "" among them means it
may be left out; strings compared without case, spaces and the marks ,./-_*^; numbers by value.
With the functions' declarations, types and required arguments are the leaderboard's as well: 5.0 is
no integer, and True is none either, while 5 is a float; a value of another type is right where the
allowed values are of that type, as names of variables are.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from podium_kit.verifiers.verifier import Verdict, Verifier

# One function: by argument: the allowed values.
ExpectedCall = Annotated[dict[str, dict[str, list[Any]]], Field(min_length=1, max_length=1)]
LEFT_OUT = ""
TYPES: Mapping[str, type] = {
    "string": str,
    "any": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
}
_MARKS = re.compile(r"[ ,./\-_*^]")


class WrittenCall(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    arguments: dict[str, Any] = {}


class Declaration(BaseModel):
    """A function: by argument its type, of a list that of its items, and what is required."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    types: dict[str, str]
    items: dict[str, str] = {}
    required: tuple[str, ...] = ()


def declared_call_fits(function: Declaration, call: WrittenCall, wanted: ExpectedCall) -> bool:
    [allowed] = wanted.values()
    given = call.arguments
    if call.name != function.name or not given.keys() >= set(function.required):
        return False
    if not given.keys() <= function.types.keys() & allowed.keys():
        return False
    if any(LEFT_OUT not in values for name, values in allowed.items() if name not in given):
        return False
    return all(_fits(function, name, given[name], allowed[name]) for name in given)


def plain(text: str) -> str:
    return _MARKS.sub("", text).lower().replace("'", '"')


def _fits(function: Declaration, name: str, value: Any, allowed: Sequence[Any]) -> bool:
    kind: Any = TYPES.get(function.types[name])
    inner = TYPES.get(function.items.get(name, ""))
    if kind is float and type(value) is int:
        value = float(value)
    of_answers = _type_of(allowed)
    if kind is not None and not _is_of_type(value, kind, inner, allowed):
        return False
    if kind not in COMPARED or of_answers not in (None, kind) or type(value) is not kind:
        # Numbers and flags; the name of a variable, or a value where its name is expected.
        return value in allowed
    if value == [] and LEFT_OUT in allowed:
        # An empty list is as good as none.
        return True
    compared = _same_objects if kind is list and inner is dict else COMPARED[kind]
    return any(compared(value, each) for each in allowed if type(each) is kind)


def _is_of_type(value: Any, kind: type, inner: type | None, allowed: Sequence[Any]) -> bool:
    if type(value) is not kind:
        return type(value) is _type_of(allowed)
    if kind is not list or inner is None:
        return True
    return any(_has_items_of(value, inner, each) for each in allowed)


def _has_items_of(value: Any, inner: type, allowed: Any) -> bool:
    if not isinstance(allowed, list):
        return True
    return all(type(item) in (inner, _type_of(allowed)) for item in value)


def _type_of(allowed: Sequence[Any]) -> type | None:
    return next((type(each) for each in allowed if each != LEFT_OUT), None)


def _fields(found: Any, allowed: Any) -> bool:
    if not isinstance(found, dict) or not isinstance(allowed, dict):
        return False
    if not found.keys() <= allowed.keys():
        return False
    missing = allowed.keys() - found.keys()
    return all(LEFT_OUT in allowed[name] for name in missing) and all(
        _plain(value) in _plain_texts(allowed[name]) for name, value in found.items()
    )


def _same_objects(found: list[Any], allowed: list[Any]) -> bool:
    return len(found) == len(allowed) and all(map(_fields, found, allowed))


COMPARED: Mapping[Any, Callable[[Any, Any], bool]] = {
    str: lambda found, allowed: plain(found) == plain(allowed),
    list: lambda found, allowed: _plain_texts(found) == _plain_texts(allowed),
    dict: _fields,
}


def _plain(value: Any) -> Any:
    return plain(value) if isinstance(value, str) else value


def _plain_texts(values: Any) -> list[Any]:
    # The leaderboard sometimes gives one text where a list of values is meant.
    return [_plain(each) for each in (values if isinstance(values, list | str) else [values])]


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
    return call.name == name and _wanted_fields(call.arguments, arguments)


def _wanted_fields(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
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
            return _wanted_fields(found, wanted)
        case _:
            return bool(found == wanted)
