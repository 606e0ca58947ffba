"""Checks of JSON Schema that end for any schema and any value.

By itself jsonschema compares all items for `uniqueItems` with each other, and does as much as the
schema's size times the value's. Here unique items are found in linear time, and each keyword that
is applied is a step, of which one check of a value may take so many.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

STEPS_MAX = 100_000
CHARACTERS_OF_A_STEP = 1000
_left: ContextVar[list[int] | None] = ContextVar("steps left", default=None)

Check = Callable[[Draft202012Validator, Any, Any, Any], Any]


class TooManySteps(ValidationError):
    """The value has too many parts for its schema."""


@contextmanager
def bounded_steps() -> Iterator[None]:
    """Checks in the block raise TooManySteps beyond STEPS_MAX."""
    token = _left.set([STEPS_MAX])
    try:
        yield
    finally:
        _left.reset(token)


def use_bounded_checks() -> None:
    checks = Draft202012Validator.VALIDATORS
    checks["uniqueItems"] = _unique_items
    checks |= {keyword: _counted(keyword, check) for keyword, check in checks.items()}


def _counted(keyword: str, check: Check) -> Check:
    def counted(validator: Draft202012Validator, value: Any, instance: Any, schema: Any) -> Any:
        if left := _left.get():
            left[0] -= _steps(keyword, value, instance)
            if left[0] < 0:
                raise TooManySteps(f"takes more than {STEPS_MAX} steps")
        return check(validator, value, instance, schema)

    return counted


def _steps(keyword: str, value: Any, instance: Any) -> int:
    """Returns the steps of the keyword itself; the parts of a value are counted by their own."""
    match keyword:
        case "unevaluatedItems" | "unevaluatedProperties":
            return 1 + _size(instance) ** 2
        case "patternProperties":
            return 1 + _size(value) * _size(instance)
        case "items" | "contains" | "propertyNames" | "additionalProperties" | "pattern":
            return 1 + _size(instance)
        case "enum" | "properties" | "required" | "dependentRequired" | "dependentSchemas":
            return 1 + _size(value)
    return 1


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value) // CHARACTERS_OF_A_STEP
    return len(value) if isinstance(value, list | dict) else 0


def _unique_items(
    validator: Draft202012Validator, unique: Any, instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    if not unique or not validator.is_type(instance, "array"):
        return
    # Texts, because anyone who chooses numbers can choose those with one hash.
    if len(set(map(_canonical, instance))) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _canonical(value: Any) -> str:
    """One text for what JSON Schema takes to be equal: 1 and 1.0, not 1 and true."""
    if isinstance(value, dict):
        parts = (f"{json.dumps(name)}:{_canonical(part)}" for name, part in sorted(value.items()))
        return f"{{{','.join(parts)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_canonical, value))}]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)
