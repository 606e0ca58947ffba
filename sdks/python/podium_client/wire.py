"""Requests on the wire, and streams cut into messages."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from podium_client.errors import STATUS_BY_KIND, ApiError

# As httpx has it.
Query = list[tuple[str, str | int | float | bool | None]]


def path(template: str, **parameters: str) -> str:
    """The template with its parameters; a slash inside one is escaped."""
    return template.format(**{name: quote(each, safe="") for name, each in parameters.items()})


def query_of(values: Mapping[str, Any]) -> Query:
    """Builds a query: unset values are left out, lists repeated, entries of maps written with a
    dot.
    """
    pairs: Query = []
    for name, value in values.items():
        if value is None or value in ("", 0, False, [], {}, ()):
            continue
        if isinstance(value, Mapping):
            pairs.extend((f"{name}.{key}", str(each)) for key, each in value.items())
        elif isinstance(value, list | tuple):
            pairs.extend((name, _text(each)) for each in value)
        else:
            pairs.append((name, _text(value)))
    return pairs


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        # Without a zone it would mean another time on another machine.
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone; give it one, like datetime.UTC")
        return value.isoformat()
    return str(value)


# An event without a sequence: a part of an answer that is being written.
ANSWER_PART = "answer_part"


@dataclass(frozen=True)
class ServerSentEvent:
    """One event of a stream."""

    name: str
    data: str


class LineDecoder:
    """Lines out of chunks of bytes. Only line feeds end one: text may hold other separators."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[str]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode()


class EventDecoder:
    """Server-sent events out of chunks of bytes."""

    def __init__(self) -> None:
        self._lines = LineDecoder()
        self._name, self._data = "", list[str]()

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        for line in self._lines.feed(chunk):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                self._name = value
            elif field == "data":
                self._data.append(value)
            elif not line and self._data:
                yield ServerSentEvent(self._name, "\n".join(self._data))
                self._name, self._data = "", []


def error_in_stream(body: Mapping[str, Any]) -> ApiError:
    """The error that a stream ended with; it came after the status."""
    kind = (body.get("error") or {}).get("type", "")
    return ApiError.of(STATUS_BY_KIND.get(kind, 503), body)


def error_of(status: int, content: bytes, headers: Mapping[str, str]) -> ApiError:
    """The error of a rejected request."""
    try:
        body = json.loads(content)
    except ValueError:
        body = {}
    return ApiError.of(status, body if isinstance(body, dict) else {}, headers)
