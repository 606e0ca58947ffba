import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
import pytest_asyncio
import uvicorn
from fastapi import Body, Cookie, FastAPI, File, Form, Header, Query, Request, UploadFile
from pydantic import BaseModel

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from podium.registry.v1 import tool_pb2
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
