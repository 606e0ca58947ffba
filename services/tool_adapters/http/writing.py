"""Values as an HTTP API reads them: the styles of OpenAPI, which are those of RFC 6570.

Delimiters are written as they are and values percent-encoded, so that a value that holds a
delimiter is still one value.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from tool_adapters.models import JsonObject, Style

Encode = Callable[[str], str]
# In a query a space and a bar are no characters of a URL.
DELIMITERS = {
    Style.COMMA_SEPARATED: ",",
    Style.SPACE_SEPARATED: "%20",
    Style.PIPE_SEPARATED: "%7C",
}
PLAIN_DELIMITERS = {**DELIMITERS, Style.SPACE_SEPARATED: " ", Style.PIPE_SEPARATED: "|"}


def query(values: JsonObject, styles: Mapping[str, Style]) -> str:
    pairs = _pairs(values, styles, encoded, DELIMITERS)
    return "&".join(f"{name}={text}" for name, text in pairs)


def form(values: JsonObject, styles: Mapping[str, Style]) -> tuple[tuple[str, str], ...]:
    return tuple(_pairs(values, styles, str, PLAIN_DELIMITERS))


def cookies(values: JsonObject, styles: Mapping[str, Style]) -> str:
    pairs = _pairs(values, styles, encoded, DELIMITERS)
    return "; ".join(f"{name}={text}" for name, text in pairs)


def path_part(name: str, value: Any, style: Style | None) -> str:
    """A placeholder's replacement in a path, encoded; by itself values have commas between."""
    listed = ",".join(_listed(value, encoded))
    match style:
        case Style.LABEL:
            part = "." + ".".join(_members(value, encoded))
        case Style.LABEL_COMMA:
            part = f".{listed}"
        case Style.MATRIX:
            named = _members(value, encoded) if isinstance(value, dict) else _repeated(name, value)
            part = "".join(f";{each}" for each in named)
        case Style.MATRIX_COMMA:
            part = f";{encoded(name)}={listed}"
        case Style.SIMPLE_EXPLODED:
            part = ",".join(_members(value, encoded))
        case Style.JSON:
            part = encoded(json.dumps(value))
        case _:
            whole = isinstance(value, dict) and style is None
            part = encoded(text_of(value)) if whole else listed
    return part


def header(value: Any, style: Style | None) -> str:
    match style:
        case Style.COMMA_SEPARATED:
            return ",".join(_listed(value, str))
        case Style.SIMPLE_EXPLODED:
            return ",".join(_members(value, str))
        case Style.JSON:
            return json.dumps(value)
    return text_of(value)


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def encoded(text: str) -> str:
    return quote(text, safe="")


def _pairs(
    values: JsonObject,
    styles: Mapping[str, Style],
    encode: Encode,
    delimiters: Mapping[Style, str],
) -> Iterator[tuple[str, str]]:
    """Yields pairs; by default a list repeats its name, and an object is JSON."""
    for name, value in values.items():
        style = styles.get(name)
        if style is Style.DEEP_OBJECT:
            yield from ((encode(key), encode(text)) for key, text in _deep(name, value))
        elif style and style in delimiters and isinstance(value, list | dict):
            yield encode(name), delimiters[style].join(_listed(value, encode))
        elif style is Style.EXPLODED_OBJECT and isinstance(value, dict):
            yield from ((encode(key), encode(text_of(part))) for key, part in value.items())
        elif style is Style.JSON:
            yield encode(name), encode(json.dumps(value))
        else:
            items = value if isinstance(value, list) else [value]
            yield from ((encode(name), encode(text_of(item))) for item in items)


def _deep(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """`filter[colour]=red`, at any depth."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _deep(f"{name}[{key}]", part)
    else:
        yield name, text_of(value)


def _listed(value: Any, encode: Encode) -> Iterable[str]:
    """The values of a list, and of an object its names and values in turn."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from (encode(key), encode(text_of(part)))
    else:
        yield from (
            encode(text_of(each)) for each in (value if isinstance(value, list) else [value])
        )


def _members(value: Any, encode: Encode) -> Iterable[str]:
    """The values of a list, and of an object `name=value`."""
    if isinstance(value, dict):
        return [f"{encode(key)}={encode(text_of(part))}" for key, part in value.items()]
    return _listed(value, encode)


def _repeated(name: str, value: Any) -> list[str]:
    return [f"{encoded(name)}={part}" for part in _listed(value, encoded)]
