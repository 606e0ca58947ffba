"""JSON values that write themselves briefly.

jsonschema writes the whole value into every error, also into the thousands that it keeps for the
branches of one `anyOf`.
"""

from functools import cached_property
from itertools import islice
from typing import Any

CHARACTERS_MAX = 200


class _BriefText(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return _cut(str.__repr__(self[: CHARACTERS_MAX + 1]))


class _BriefList(list[Any]):
    # Once, because a value within a value is written with each of them.
    @cached_property
    def _words(self) -> str:
        return _cut(f"[{', '.join(map(repr, islice(self, CHARACTERS_MAX)))}]")

    def __repr__(self) -> str:
        return self._words


class _BriefObject(dict[str, Any]):
    @cached_property
    def _words(self) -> str:
        members = islice(self.items(), CHARACTERS_MAX)
        return _cut(f"{{{', '.join(f'{name!r}: {value!r}' for name, value in members)}}}")

    def __repr__(self) -> str:
        return self._words


def brief(value: Any) -> Any:
    if isinstance(value, dict):
        return _BriefObject((brief(name), brief(part)) for name, part in value.items())
    if isinstance(value, list):
        return _BriefList(map(brief, value))
    return _BriefText(value) if isinstance(value, str) else value


def _cut(words: str) -> str:
    return words if len(words) <= CHARACTERS_MAX else f"{words[:CHARACTERS_MAX]}..."
