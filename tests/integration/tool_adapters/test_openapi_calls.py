import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import unquote
from uuid import uuid4

import pytest
import pytest_asyncio
import uvicorn
from fastapi import Body, Cookie, FastAPI, File, Form, Header, Query, Request, UploadFile
from pydantic import BaseModel

from embedded_servers import Databases
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.servers import WebServer
from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from tool_registry.tools.convert_openapi import read_openapi

app = FastAPI(title="Shapes", servers=[{"url": "/v1"}])
# What its document says: below a path of its server.
site = FastAPI()
site.mount("/v1", app)


class Item(BaseModel):
    id: int
    name: str | None = None


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


@app.get("/items/{item_id}")
async def read_item(
    item_id: str,
    tag: Annotated[list[str] | None, Query()] = None,
    trace: Annotated[str, Header(alias="X-Trace")] = "",
    session: Annotated[str, Cookie()] = "",
) -> Any:
    return {"item_id": item_id, "tag": tag, "trace": trace, "session": session}


@app.put("/items/{id}")
async def write_item(id: str, item: Item) -> Any:
    return {"path": id, "body": item.model_dump()}


@app.post("/numbers")
async def add_numbers(numbers: list[int]) -> Any:
    return {"sum": sum(numbers)}


@app.post("/either")
async def take_either(value: Annotated[Item | list[str], Body()]) -> Any:
    return {"kind": type(value).__name__}


@app.post("/trees")
async def plant(tree: Tree) -> Any:
    return {"names": [tree.name, *(child.name for child in tree.children)]}


@app.post("/free")
async def take_anything(value: dict[str, Any]) -> Any:
    return {"keys": sorted(value)}


@app.post("/login")
async def log_in(name: Annotated[str, Form()], roles: Annotated[list[str], Form()]) -> Any:
    return {"name": name, "roles": roles}


@app.post("/photos")
async def add_photo(photo: Annotated[UploadFile, File()], title: Annotated[str, Form()]) -> Any:
    return {"bytes": len(await photo.read()), "title": title}


CSV = {"requestBody": {"required": True, "content": {"text/csv": {"schema": {"type": "string"}}}}}


@app.post("/rows", openapi_extra=CSV)
async def add_rows(request: Request) -> Any:
    text = (await request.body()).decode()
    return {"type": request.headers["content-type"], "rows": len(text.splitlines())}


FILTER = {
    "parameters": [
        {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
        {
            "name": "fields",
            "in": "query",
            "explode": False,
            "schema": {"type": "array", "items": {"type": "string"}},
        },
    ]
}


@app.get("/search", openapi_extra=FILTER)
async def search(request: Request) -> Any:
    return dict(request.query_params.multi_items())


@pytest_asyncio.fixture
async def url() -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(site, port=0, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await serving


def imported(url: str) -> dict[str, tool_pb2.ToolSpec]:
    request = registry_pb.ReadOpenApiRequest(
        document=json.dumps(app.openapi()), document_url=f"{url}/openapi.json"
    )
    reply = read_openapi(request)
    assert not reply.skipped
    return {
        f"{spec.connection.http.method} {spec.connection.http.url_template.removeprefix(url)}": spec
        for spec in reply.specs
    }


CALLS: dict[str, tuple[dict[str, Any], Any]] = {
    "GET /v1/items/{item_id}": (
        {"item_id": "a b", "tag": ["x", "y"], "X-Trace": "t1"},
        {"item_id": "a b", "tag": ["x", "y"], "trace": "t1", "session": ""},
    ),
    "PUT /v1/items/{id}": (
        {"id": "left", "body_id": 7, "name": "n"},
        {"path": "left", "body": {"id": 7, "name": "n"}},
    ),
    "POST /v1/numbers": ({"body": [1, 2, 3]}, {"sum": 6}),
    "POST /v1/either": ({"body": ["a"]}, {"kind": "list"}),
    "POST /v1/trees": (
        {"name": "a", "children": [{"name": "b", "children": []}]},
        {"names": ["a", "b"]},
    ),
    "POST /v1/free": ({"body": {"z": 1, "a": 2}}, {"keys": ["a", "z"]}),
    "POST /v1/login": (
        {"name": "ada", "roles": ["r1", "r2"]},
        {"name": "ada", "roles": ["r1", "r2"]},
    ),
    "POST /v1/photos": ({"photo": "12345", "title": "t"}, {"bytes": 5, "title": "t"}),
    "POST /v1/rows": ({"body": "a,b\n1,2\n"}, {"type": "text/csv", "rows": 2}),
    "GET /v1/search": (
        {"filter": {"colour": "red", "size": {"min": 2}}, "fields": ["id", "name"]},
        {"filter[colour]": "red", "filter[size][min]": "2", "fields": "id,name"},
    ),
}


async def test_every_operation_of_the_server_becomes_a_tool(url: str) -> None:
    assert set(imported(url)) == set(CALLS)


@pytest.mark.parametrize("operation", CALLS)
async def test_an_operation_answers_what_it_is_asked(
    adapters: AdaptersUnderTest, url: str, operation: str
) -> None:
    arguments, expected = CALLS[operation]
    tool = adapters.register(imported(url)[operation])
    answer = await adapters.call(tool, arguments)
    assert not answer.HasField("failure"), answer.failure
    assert json.loads(answer.output.content_json) == expected


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
async def styled(
    databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[AdaptersUnderTest]:
    folder = tmp_path_factory.mktemp("adapters")
    async with (
        running_registry() as registry,
        run_adapters(await databases.create("tool_adapters"), folder, registry) as running,
    ):
        yield running


async def sent(
    styled: AdaptersUnderTest, web: WebServer, parameter: dict[str, Any], value: Any
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
    answer = await styled.call(styled.register(reply.specs[0]), {"p": value})
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
    styled: AdaptersUnderTest, web: WebServer, place: str, style: str, explode: bool, kind: str
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
    seen = await sent(styled, web, parameter, value)
    assert decoded(seen, place, style, explode, kind) == shown(value)


async def test_by_default_a_query_spreads_an_object_and_repeats_a_list(
    styled: AdaptersUnderTest, web: WebServer
) -> None:
    role = {"role": "admin", "firstName": "Alex"}
    whole = {"name": "p", "in": "query", "schema": SCHEMAS["object"]}
    assert (await sent(styled, web, whole, role))["path"] == "/echo/x?role=admin&firstName=Alex"
    part = {**whole, "explode": False}
    seen = await sent(styled, web, part, role)
    assert seen["path"] == "/echo/x?p=role,admin,firstName,Alex"
    colours = {"name": "p", "in": "query", "schema": SCHEMAS["list"]}
    assert (await sent(styled, web, colours, ["a", "b"]))["path"] == "/echo/x?p=a&p=b"


async def test_deep_objects_and_content_are_written_in_their_own_way(
    styled: AdaptersUnderTest, web: WebServer
) -> None:
    deep = {"name": "p", "in": "query", "style": "deepObject", "schema": SCHEMAS["object"]}
    nested = {"colour": "red", "size": {"gte": 4}, "tags": ["a", "b"]}
    seen = await sent(styled, web, {**deep, "schema": {"type": "object"}}, nested)
    assert unquote(seen["path"]) == (
        "/echo/x?p[colour]=red&p[size][gte]=4&p[tags][0]=a&p[tags][1]=b"
    )
    content = {"name": "p", "in": "query", "content": {"application/json": {"schema": {}}}}
    for value in ("text", {"a": [1]}, [1, "b"]):
        seen = await sent(styled, web, content, value)
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
    styled: AdaptersUnderTest, web: WebServer, schema: dict[str, Any]
) -> None:
    parameter = {"name": "p", "in": "query", "schema": schema}
    assert (await sent(styled, web, parameter, {"role": "a"}))["path"] == "/echo/x?role=a"
