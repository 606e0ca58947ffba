import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
import pytest

from embedded_servers import Database
from integration.tool_registry.builders import make_spec
from integration.tool_registry.running_registry import (
    Caller,
    RunningRegistry,
    rejected,
    running_registry,
)
from podium.registry.v1 import policy_pb2, tool_pb2
from podium.registry.v1 import policy_service_pb2 as policies_pb
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.rpc.identity import Scope

# What the endpoint knows: words that mean alike point the same way.
MEANINGS = {"weather": (1, 0, 0), "rain": (1, 0, 0), "umbrella": (0.9, 0.1, 0), "sum": (0, 1, 0)}
NONE_OF_THESE = [0.0, 0.0, 1.0]


class EmbeddingsEndpoint(BaseHTTPRequestHandler):
    broken = False

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert (self.path, self.headers["authorization"]) == ("/v1/embeddings", "Bearer key")
        data = [
            {"index": index, "embedding": self._vector(text)}
            for index, text in enumerate(body["input"])
        ]
        self.send_response(500 if type(self).broken else 200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": data[::-1]}).encode())

    def _vector(self, text: str) -> list[float]:
        known = [MEANINGS[word] for word in MEANINGS if word in text.lower()]
        return [sum(part) for part in zip(*known, strict=True)] if known else NONE_OF_THESE

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def embeddings() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmbeddingsEndpoint)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    EmbeddingsEndpoint.broken = False
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def selector(**fields: Any) -> policy_pb2.ToolSelector:
    return policy_pb2.ToolSelector(**fields)


async def search(caller: Caller, query: str, **fields: object) -> pb.SearchToolsResponse:
    request = pb.SearchToolsRequest(query=query, **fields)  # type: ignore[arg-type]
    reply: pb.SearchToolsResponse = await caller.tools.SearchTools(request)
    return reply


async def names(caller: Caller, query: str, **fields: object) -> list[str]:
    return [found.tool.spec.name for found in (await search(caller, query, **fields)).results]


async def register_some(registry: RunningRegistry) -> Caller:
    ada = registry.as_()
    await registry.platform().register(
        make_spec("get_weather", description="Tells whether rain falls."), shared=True
    )
    await ada.register(make_spec("add-up", description="Makes a sum.", tags=["maths"]))
    await registry.as_("globex").register(make_spec("secret", description="Their rain."))
    return ada


async def test_names_descriptions_and_tags_are_searched_best_first(
    registry: RunningRegistry,
) -> None:
    ada = await register_some(registry)
    await ada.register(make_spec("rain_gauge", description="Rain, rain and rain."))
    assert await names(ada, "rain") == ["rain_gauge", "get_weather"]
    # One has the word in its name, the other is about it.
    assert await names(ada, "weather") == ["get_weather", "rain_gauge"]
    assert await names(ada, "MATHS") == ["add-up"]
    assert await names(ada, "rain", page_size=1) == ["rain_gauge"]
    assert await names(ada, "rain", kinds=[tool_pb2.TOOL_KIND_LLM]) == []
    assert (await search(ada, "rain")).embeddings_used


async def test_a_change_is_found_by_the_next_search(registry: RunningRegistry) -> None:
    ada = await register_some(registry)
    await ada.deprecate("add-up")
    assert await names(ada, "sum") == []
    await ada.register(make_spec("total", description="Makes a sum, too."))
    assert await names(ada, "sum") == ["total"]
    runner = registry.as_("acme", Scope.EPISODES_RUN)
    assert await names(runner, "sum") == ["total"]


async def test_what_a_policy_denies_is_not_found(registry: RunningRegistry) -> None:
    ada, platform = await register_some(registry), registry.platform()
    runner = registry.as_("acme", Scope.EPISODES_RUN)
    await platform.create_policy("platform-floor", deny=selector(names=["get_weather"]))
    assert await names(ada, "rain") == await names(runner, "rain") == []
    await platform.create_policy("platform-floor", allow=selector(names=["get_weather"]))
    assert await names(runner, "rain") == ["get_weather"]
    assert await names(runner, "sum") == []
    await platform.create_policy("platform-floor")
    await ada.create_policy("mine", deny=selector(tags=["maths"]))
    assert await names(runner, "sum") == ["add-up"]
    await ada.policies.ActivatePolicy(policies_pb.ActivatePolicyRequest(name="mine", version=1))
    assert await names(runner, "sum") == []


async def test_an_empty_query_is_rejected(registry: RunningRegistry) -> None:
    error = await rejected(search(registry.as_(), " "))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_with_embeddings_other_words_find_what_is_meant(
    database: Database, tmp_path: Path, embeddings: str
) -> None:
    settings: dict[str, Any] = {"embeddings_base_url": embeddings, "embeddings_api_key": "key"}
    async with running_registry(await database("tool_registry"), tmp_path, **settings) as registry:
        ada = await register_some(registry)
        reply = await search(ada, "umbrella")
        assert reply.embeddings_used
        assert [found.tool.spec.name for found in reply.results] == ["get_weather"]
        await ada.register(make_spec("umbrella_shop", description="Sells things."))
        # Found by its word and by its meaning, so before what only means alike.
        assert await names(ada, "umbrella") == ["umbrella_shop", "get_weather"]


async def test_without_an_answer_of_the_endpoint_words_still_find(
    database: Database, tmp_path: Path, embeddings: str
) -> None:
    EmbeddingsEndpoint.broken = True
    settings: dict[str, Any] = {"embeddings_base_url": embeddings, "embeddings_api_key": "key"}
    async with running_registry(await database("tool_registry"), tmp_path, **settings) as registry:
        ada = await register_some(registry)
        reply = await search(ada, "rain")
        assert [found.tool.spec.name for found in reply.results] == ["get_weather"]
        assert not reply.embeddings_used
