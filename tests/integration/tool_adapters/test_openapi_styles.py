import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pytest
import pytest_asyncio

from embedded_servers import Databases
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.web_server import WebServer
from podium.registry.v1 import tool_registry_service_pb2 as pb
from tool_registry.tools.convert_openapi import read_openapi

TEXT, NUMBER, FLAG = "Alex & co, 1/2=50%", 7, True
LIST = ["red", "dark, blue", "a|b;c", "ä.ö"]
OBJECT = {"role": "admin, main", "first.name": "Al=ex", "age": "7"}
SCHEMAS = {
    "text": {"type": "string"},
    "number": {"type": "integer"},
    "flag": {"type": "boolean"},
    "list": {"type": "array", "items": {"type": "string"}},
    "object": {"type": "object", "additionalProperties": {"type": "string"}},
}
VALUES = {"text": TEXT, "number": NUMBER, "flag": FLAG, "list": LIST, "object": OBJECT}
PLAIN_VALUES: dict[str, Any] = {
    "text": "x y",
    "list": ["red", "blue"],
    "object": {"role": "admin", "age": "7"},
}
STYLES = [
    ("path", "simple"),
    ("path", "label"),
    ("path", "matrix"),
    ("query", "form"),
    ("header", "simple"),
    ("cookie", "form"),
]
OF_LISTS = [("query", "spaceDelimited"), ("query", "pipeDelimited")]
ROWS = [
    (place, style, explode, kind)
    for place, style in STYLES
    for explode in (True, False)
    for kind in SCHEMAS
] + [(place, style, False, kind) for place, style in OF_LISTS for kind in ("list", "object")]


@pytest_asyncio.fixture(scope="module")
async def adapters(
    databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[AdaptersUnderTest]:
    folder = tmp_path_factory.mktemp("adapters")
    async with (
        running_registry() as registry,
        run_adapters(await databases.create("tool_adapters"), folder, registry) as running,
    ):
        yield running


async def sent(
    adapters: AdaptersUnderTest, web: WebServer, parameter: dict[str, Any], value: Any
) -> dict[str, Any]:
    path = "/echo/{p}" if parameter["in"] == "path" else "/echo/x"
    document = {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": web.url}],
        "paths": {path: {"get": {"operationId": f"find-{uuid4()}", "parameters": [parameter]}}},
    }
    reply = read_openapi(pb.ReadOpenApiRequest(document=json.dumps(document)))
    assert not reply.skipped
    answer = await adapters.call(adapters.register(reply.specs[0]), {"p": value})
    assert answer.HasField("output"), answer.failure
    return web.seen[-1]


def pieces(text: str, delimiter: str) -> list[str]:
    return [unquote(piece) for piece in text.split(delimiter)]


def object_of(parts: list[str], *, exploded: bool) -> dict[str, str]:
    if exploded:
        pairs = [part.split("=", 1) for part in parts]
        return {unquote(name): unquote(value) for name, value in pairs}
    return dict(zip(map(unquote, parts[::2]), map(unquote, parts[1::2]), strict=True))


def decoded(seen: dict[str, Any], place: str, style: str, explode: bool, kind: str) -> Any:
    """The value that a server reads, by RFC 6570 and OpenAPI's table."""
    path, _, query = seen["path"].partition("?")
    headers = seen["headers"]
    written = {
        "path": path.removeprefix("/echo/"),
        "query": query,
        "header": headers.get("p", ""),
        "cookie": headers.get("cookie", headers.get("Cookie", "")),
    }[place]
    delimiter = ","
    if style == "label":
        assert written[0] == "."
        written, delimiter = written[1:], "." if explode else ","
    elif style == "matrix":
        assert written[0] == ";"
        written, delimiter = written[1:], ";" if explode else ","
    elif style in ("form", "spaceDelimited", "pipeDelimited"):
        exploded = "; " if place == "cookie" else "&"
        delimiter = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(style, ",")
        delimiter = exploded if explode else delimiter
    named = style in ("matrix", "form", "spaceDelimited", "pipeDelimited")
    if named and not (explode and kind in ("list", "object")):
        assert written.startswith("p=")
        written = written.removeprefix("p=")
    if kind == "list":
        parts = written.split(delimiter)
        own = [part.removeprefix("p=") for part in parts] if named and explode else parts
        return [unquote(part) for part in own] if place != "header" else own
    if kind == "object":
        return object_of(written.split(delimiter), exploded=explode)
    return unquote(written)


def shown(value: Any) -> Any:
    return value if isinstance(value, str | list | dict) else json.dumps(value)


@pytest.mark.parametrize(("place", "style", "explode", "kind"), ROWS)
async def test_a_value_is_read_as_it_was_given(
    adapters: AdaptersUnderTest, web: WebServer, place: str, style: str, explode: bool, kind: str
) -> None:
    parameter = {
        "name": "p",
        "in": place,
        "style": style,
        "explode": explode,
        "required": True,
        "schema": SCHEMAS[kind],
    }
    # A header has no encoding of its own, a dot is never encoded, and these styles encode their
    # delimiters.
    plain = place == "header" or style in ("label", "spaceDelimited", "pipeDelimited")
    value = PLAIN_VALUES.get(kind, VALUES[kind]) if plain else VALUES[kind]
    seen = await sent(adapters, web, parameter, value)
    assert decoded(seen, place, style, explode, kind) == shown(value)


async def test_by_default_a_query_spreads_an_object_and_repeats_a_list(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    role = {"role": "admin", "firstName": "Alex"}
    whole = {"name": "p", "in": "query", "schema": SCHEMAS["object"]}
    assert (await sent(adapters, web, whole, role))["path"] == "/echo/x?role=admin&firstName=Alex"
    part = {**whole, "explode": False}
    seen = await sent(adapters, web, part, role)
    assert seen["path"] == "/echo/x?p=role,admin,firstName,Alex"
    colours = {"name": "p", "in": "query", "schema": SCHEMAS["list"]}
    assert (await sent(adapters, web, colours, ["a", "b"]))["path"] == "/echo/x?p=a&p=b"


async def test_deep_objects_and_content_are_written_in_their_own_way(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    deep = {"name": "p", "in": "query", "style": "deepObject", "schema": SCHEMAS["object"]}
    nested = {"colour": "red", "size": {"gte": 4}, "tags": ["a", "b"]}
    seen = await sent(adapters, web, {**deep, "schema": {"type": "object"}}, nested)
    assert unquote(seen["path"]) == (
        "/echo/x?p[colour]=red&p[size][gte]=4&p[tags][0]=a&p[tags][1]=b"
    )
    content = {"name": "p", "in": "query", "content": {"application/json": {"schema": {}}}}
    for value in ("text", {"a": [1]}, [1, "b"]):
        seen = await sent(adapters, web, content, value)
        assert json.loads(unquote(seen["path"].removeprefix("/echo/x?p="))) == value


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "string"}, SCHEMAS["object"]]},
        {"type": ["object", "null"]},
        {"properties": {"role": {}}},
        {"allOf": [SCHEMAS["object"]]},
        {},
    ],
)
async def test_a_value_that_may_be_an_object_is_written_as_one(
    adapters: AdaptersUnderTest, web: WebServer, schema: dict[str, Any]
) -> None:
    parameter = {"name": "p", "in": "query", "schema": schema}
    assert (await sent(adapters, web, parameter, {"role": "a"}))["path"] == "/echo/x?role=a"
