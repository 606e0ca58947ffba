"""Claims of tokens by their place, whatever providers call them."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

# The keys to a claim, from the outside in.
Keys = tuple[str, ...]
_STEP = re.compile(r"""\.(?P<name>[^.\[\]]+)|\[(?P<quote>["'])(?P<quoted>.+?)(?P=quote)\]""")


def _places(value: Any) -> Any:
    """A path, a list of keys, or a list of several of both, as the last."""
    if isinstance(value, str):
        return ((value,) if not value.startswith("$") else _steps(value),)
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("write a path like realm_access.roles, or a list of keys")
    if all(isinstance(key, str) for key in value):
        return (tuple(value),)
    return tuple(place for each in value for place in _places(each))


def _steps(path: str) -> Keys:
    """The keys of a JSON path of names alone (RFC 9535), like $.realms['my.client']."""
    found, at = [], 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"{path!r} is no JSON path of names, like $.realms['my.client'].roles")
        found.append(step["name"] or step["quoted"])
        at = step.end()
    if not found:
        raise ValueError(f"{path!r} names no claim")
    return tuple(found)


# Written as a path, as a list of keys, or as a list of several of them.
ClaimPlaces = Annotated[
    tuple[Annotated[Keys, Field(min_length=1)], ...],
    BeforeValidator(_places),
    Field(min_length=1, validate_default=True),
]


def values_at(claims: Mapping[str, Any], places: ClaimPlaces) -> Iterator[Any]:
    for keys in places:
        found: Any = claim(claims, keys[0]) if len(keys) == 1 else _inside(claims, keys)
        if found is not None:
            yield found


def words_at(claims: Mapping[str, Any], places: ClaimPlaces) -> list[str]:
    """Words of a list, of a text with spaces between, or the names of an object that has values."""
    words: list[str] = []
    for named in values_at(claims, places):
        if isinstance(named, str):
            words += named.split()
        elif isinstance(named, Mapping):
            words += [name for name, value in named.items() if value]
        elif isinstance(named, list):
            words += [word for word in named if isinstance(word, str)]
    return words


def written(places: ClaimPlaces) -> str:
    return " or ".join(".".join(keys) for keys in places)


def claim(claims: Mapping[str, Any], path: str) -> Any:
    """The value at a path like "realm_access.roles"; names may have dots, the longest counts."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        value = claims.get(".".join(parts[:count]))
        if count == len(parts):
            found = value
        else:
            rest = ".".join(parts[count:])
            found = claim(value, rest) if isinstance(value, Mapping) else None
        if found is not None:
            return found
    return None


def _inside(claims: Any, keys: Keys) -> Any:
    for key in keys:
        claims = claims.get(key) if isinstance(claims, Mapping) else None
    return claims
