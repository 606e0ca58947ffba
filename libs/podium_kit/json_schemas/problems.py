"""Problems of a value with a JSON Schema (draft 2020-12), in words that let a model fix it."""

import json
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from podium_kit.json_schemas.bounded_checks import TooManySteps, bounded_steps, use_bounded_checks
from podium_kit.json_schemas.brief_values import brief
from podium_kit.json_schemas.linear_patterns import UnsupportedPattern, use_linear_patterns

use_linear_patterns()
use_bounded_checks()

PROBLEMS_FOUND = 100
PROBLEMS_SHOWN = 3
WORDS_MAX = 300


def problems(validator: Draft202012Validator, instance: Any) -> str:
    try:
        with bounded_steps():
            found = list(islice(validator.iter_errors(brief(instance)), PROBLEMS_FOUND))
    except UnsupportedPattern as error:
        return f"a pattern of the schema has an {error.message}"
    except TooManySteps as error:
        return f"to check it {error.message}; send fewer or shorter values"
    except RecursionError:
        return "it is nested too deep to be checked; flatten it"
    errors = sorted(found, key=lambda error: list(map(str, error.path)))
    shown = "; ".join(_problem(error) for error in errors[:PROBLEMS_SHOWN])
    left_out = len(errors) - PROBLEMS_SHOWN
    return f"{shown}; and {left_out} more" if left_out > 0 else shown


def _problem(error: ValidationError) -> str:
    path = "".join(f"/{part}" for part in error.absolute_path) or "/"
    return f"at {_cut(path)}: {_cut(error.message)}{_expectation(error)}"


def _expectation(error: ValidationError) -> str:
    """Returns the schema's demand on the faulty place, unless the message states it already."""
    if error.validator in {"required", "additionalProperties", "enum", "type"}:
        return ""
    return f" (expected {_cut(json.dumps({error.validator: error.validator_value}))})"


def _cut(words: str) -> str:
    return words if len(words) <= WORDS_MAX else f"{words[:WORDS_MAX]}..."
