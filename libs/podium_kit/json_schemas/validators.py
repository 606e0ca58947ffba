"""Validators that fetch nothing.

By itself jsonschema opens the URL or the file that a `$ref` names, and waits for it for ever.
"""

from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry

_NOTHING: Registry[Any] = Registry()


def validator_of(schema: Any) -> Draft202012Validator:
    """Raises referencing's Unresolvable, when it checks, for a reference that leaves the schema."""
    return Draft202012Validator(schema, registry=_NOTHING)
