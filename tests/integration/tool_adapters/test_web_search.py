import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from aiohttp import web
from google.protobuf import json_format

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2

TEMPLATES = Path(__file__).resolve().parents[3] / "bundled" / "tool_templates"
KEY = "search-key-123"


async def tavily(request: web.Request) -> web.Response:
    """POST /search with a bearer token (Tavily API reference, "Tavily Search")."""
    if request.headers.get("authorization") != f"Bearer {KEY}":
        return web.json_response({"detail": {"error": "Unauthorized"}}, status=401)
    body = await request.json()
    page = {"title": "Lisbon", "url": "https://example.com/1", "content": "545,796", "score": 0.9}
    results = [page] * body.get("max_results", 5)
    return web.json_response({"query": body["query"], "answer": None, "results": results})


async def brave(request: web.Request) -> web.Response:
    """GET /res/v1/web/search with X-Subscription-Token (Brave Search API, "Web search")."""
    if request.headers.get("x-subscription-token") != KEY:
        return web.json_response({"type": "ErrorResponse"}, status=422)
    page = {"title": "Lisbon", "url": "https://example.com/1", "description": "545,796"}
    results = [page] * int(request.query.get("count", "20"))
    return web.json_response(
        {"type": "search", "query": {"original": request.query["q"]}, "web": {"results": results}}
    )


@asynccontextmanager
async def provider() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/search", tavily)
    app.router.add_get("/res/v1/web/search", brave)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def template(name: str, base_url: str) -> tool_pb2.ToolSpec:
    spec = tool_pb2.ToolSpec()
    json_format.ParseDict(yaml.safe_load((TEMPLATES / f"web_search_{name}.yaml").read_text()), spec)
    http = spec.connection.http
    http.url_template = base_url + urlsplit(http.url_template).path
    return spec


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("tavily", {"query": "population of Lisbon", "max_results": 2}),
        ("brave", {"q": "population of Lisbon", "count": 2}),
    ],
)
async def test_a_search_gives_pages_with_their_urls(
    adapters: AdaptersUnderTest,
    name: str,
    arguments: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"TOOL_ADAPTERS_SECRET_{name.upper()}_API_KEY", KEY)
    async with provider() as base_url:
        answer = await adapters.call(adapters.register(template(name, base_url)), arguments)
    found = json.loads(answer.output.content_json)
    results = found["results"] if name == "tavily" else found["web"]["results"]
    assert [page["url"] for page in results] == ["https://example.com/1"] * 2
    assert answer.sku == f"tool/web_search_{name}"


@pytest.mark.parametrize("name", ["tavily", "brave"])
async def test_without_a_key_the_search_says_which_secret_is_missing(
    adapters: AdaptersUnderTest, name: str
) -> None:
    async with provider() as base_url:
        spec = template(name, base_url)
        arguments = {"query": "x"} if name == "tavily" else {"q": "x"}
        answer = await adapters.call(adapters.register(spec), arguments)
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert f"{name}-api-key" in answer.failure.message


async def test_a_rejected_key_is_a_failure_of_permission(
    adapters: AdaptersUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_TAVILY_API_KEY", "wrong-key-999")
    async with provider() as base_url:
        spec = template("tavily", base_url)
        answer = await adapters.call(adapters.register(spec), {"query": "x"})
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert "wrong-key-999" not in answer.failure.message
