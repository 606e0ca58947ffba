"""Every case of every provider is an answer, a retry or a named failure (`make providers`)."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from aiohttp import web

from embedded_servers import Databases
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.providers.provider_table import PROVIDERS
from integration.tool_adapters.providers.recordings import ANSWER, Provider, Recording
from integration.tool_adapters.test_llm_tools import counted
from integration.tool_adapters.tool_specs import llm_spec, tool_limits
from podium.common.v1 import failure_pb2, usage_pb2

ATTEMPTS = 2
CASES = [(name, case) for name, provider in PROVIDERS.items() for case in provider.cases()]


@asynccontextmanager
async def answering(
    *recordings: Recording, asked: list[tuple[dict[str, Any], Mapping[str, str]]] | None = None
) -> AsyncIterator[str]:
    """A server that sends the recordings one after the other."""
    left = list(recordings)

    async def answer(request: web.Request) -> web.StreamResponse:
        if asked is not None:
            asked.append((await request.json(), request.headers))
        recording = left.pop(0)
        if not recording.events:
            return web.json_response(
                recording.body, status=recording.status, headers=recording.headers
            )
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in recording.events:
            data = event if isinstance(event, str) else json.dumps(event)
            await response.write(f": keep-alive\n\ndata: {data}\n\n".encode())
        return response

    app = web.Application()
    app.router.add_post("/v1/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()
    assert not left


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


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[defaultdict[str, dict[str, str]]]:
    """Prints what became of each case, with `-s`."""
    cells: defaultdict[str, dict[str, str]] = defaultdict(dict)
    yield cells
    for provider, by_case in cells.items():
        print(f"\n{provider}")  # noqa: T201
        for case, cell in by_case.items():
            print(f"  {case:18} {cell}")  # noqa: T201


@pytest.mark.parametrize(("name", "case"), CASES, ids=[" ".join(each) for each in CASES])
async def test_a_reply_becomes_an_answer_a_retry_or_a_named_failure(
    adapters: AdaptersUnderTest, table: defaultdict[str, dict[str, str]], name: str, case: str
) -> None:
    provider: Provider = PROVIDERS[name]
    recording = provider.cases()[case]
    replies = [recording, provider.cases()["stream"]] if recording.retried else [recording]
    async with answering(*replies) as url:
        spec = llm_spec(url, provider.api, limits=tool_limits(attempts=ATTEMPTS))
        spec.name = f"expert-{uuid4()}"
        answer = await adapters.call(adapters.register(spec))
    expected = "stop" if recording.retried else recording.meaning
    assert answer.attempts == len(replies), answer.failure
    if answer.HasField("failure"):
        kind = failure_pb2.FailureKind.Name(answer.failure.kind).removeprefix("FAILURE_KIND_")
        assert kind == expected, answer.failure
        assert not recording.charged or counted(answer) == provider.quantities
        table[name][case] = f"failed: {kind}: {answer.failure.message}"
        return
    assert (answer.output.content, answer.finish_reason) == (ANSWER, expected)
    estimated = answer.usage.source == usage_pb2.USAGE_SOURCE_ESTIMATED
    assert estimated == recording.estimated
    if not estimated:
        assert counted(answer) == provider.quantities
    retried = "retried, " if recording.retried else ""
    table[name][case] = f"{retried}answered ({expected})"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("openai", {"reasoning_effort": "low", "verbosity": "high"}),
        ("openai responses", {"reasoning": {"effort": "low"}, "text": {"verbosity": "high"}}),
        ("anthropic", {"output_config": {"effort": "low"}}),
    ],
)
async def test_options_are_written_as_each_api_names_them(
    adapters: AdaptersUnderTest, name: str, written: dict[str, Any]
) -> None:
    provider = PROVIDERS[name]
    asked: list[tuple[dict[str, Any], Mapping[str, str]]] = []
    thinking: dict[str, Any] = {"type": "enabled", "budget_tokens": 2048, "share": 0.5}
    async with answering(provider.cases()["stream"], asked=asked) as url:
        spec = llm_spec(url, provider.api)
        spec.name = f"expert-{uuid4()}"
        options = spec.connection.llm.models[0].options
        options.reasoning_effort, options.service_tier = "low", "flex"
        options.verbosity = "" if name == "anthropic" else "high"
        options.body.update({"thinking": thinking})
        options.headers["x-team"] = "blue"
        answer = await adapters.call(adapters.register(spec))
    assert answer.output.content == ANSWER, answer.failure
    [(body, headers)] = asked
    assert body.items() >= (written | {"service_tier": "flex", "thinking": thinking}).items()
    assert isinstance(body["thinking"]["budget_tokens"], int)
    assert headers["x-team"] == "blue"
