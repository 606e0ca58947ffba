"""A whole episode as a collector of OpenTelemetry's protocol sees it."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from e2e.conftest import MODEL, SUM
from e2e.episodes_over_http import finished, start
from openai_server import OpenAiServer
from otlp_collector import CollectedSpan, OtlpCollector
from podium_cli.local.engines import EngineChoice
from podium_cli.local.platform import LocalPlatform, PlatformOptions
from podium_cli.local.running import fill
from podium_cli.local.state import Connection
from podium_cli.local.telemetry import CONTENT, ENDPOINT
from temporary_files import server_folder

TASK = "what is 6 x 7?"
ANSWER = "It is 42."


@dataclass(frozen=True)
class Observed:
    """A platform and the collector that it reports to."""

    collector: OtlpCollector
    connection: Connection

    def client(self) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.connection.api_key}"}
        return httpx.AsyncClient(
            base_url=self.connection.gateway_url, headers=headers, timeout=60, trust_env=False
        )

    def spans(self, episode_id: str) -> list[CollectedSpan]:
        trace_id = episode_id.replace("-", "")
        return [span for span in self.collector.spans() if span.trace_id == trace_id]


@pytest_asyncio.fixture
async def observed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Observed]:
    """As a user starts it who sets OpenTelemetry's variables."""
    async with OtlpCollector() as collector:
        monkeypatch.setenv(ENDPOINT, collector.grpc_endpoint)
        monkeypatch.setenv(CONTENT, "true")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
        with (
            server_folder("otlp") as folder,
            OpenAiServer(script=[SUM, {"answer": ANSWER}], models=[MODEL]) as model,
        ):
            engine = EngineChoice(openai_base_url=model.base_url, model=MODEL)
            platform = LocalPlatform(PlatformOptions(folder, engine), lambda _step, _done: None)
            await platform.start()
            try:
                yield Observed(collector, await fill(platform, lambda _step, _done: None))
            finally:
                await platform.stop()


def named(spans: list[CollectedSpan], name: str) -> list[CollectedSpan]:
    return [span for span in spans if span.name == name]


def said(attribute: str) -> tuple[str, str]:
    """Role and text of the only message."""
    [message] = json.loads(attribute)
    [part] = message["parts"]
    return message["role"], part["content"]


async def test_an_episode_is_an_agents_trace_of_tools_and_models(observed: Observed) -> None:
    async with observed.client() as client:
        episode_id = await start(client, task=TASK, tool_names=["calculator"])
        episode: dict[str, Any] = await finished(client, episode_id)
    await observed.collector.until(
        lambda: bool(named(observed.spans(episode_id), "invoke_agent podium"))
    )
    await observed.collector.until(
        lambda: len(named(observed.spans(episode_id), f"chat {MODEL}")) == 2
    )
    spans = observed.spans(episode_id)
    [agent] = named(spans, "invoke_agent podium")
    assert (agent.parent_id, agent.span_id) == ("", episode_id.replace("-", "")[16:])
    found = agent.attributes
    assert found["gen_ai.operation.name"] == "invoke_agent"
    assert found["gen_ai.conversation.id"] == episode_id
    assert found["podium.cost.amount"] == episode["cost"]["amount"]
    assert found["gen_ai.usage.input_tokens"] > 0 < found["gen_ai.usage.output_tokens"]
    assert said(found["gen_ai.input.messages"]) == ("user", TASK)
    assert said(found["gen_ai.output.messages"]) == ("assistant", ANSWER)
    [tool] = named(spans, "execute_tool calculator")
    assert tool.attributes["gen_ai.operation.name"] == "execute_tool"
    assert tool.attributes["gen_ai.tool.name"] == "calculator"
    assert tool.attributes["gen_ai.tool.call.id"] == f"{episode_id}/1/tool/0"
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"]) == {"expression": "6*7"}
    assert "42" in tool.attributes["gen_ai.tool.call.result"]
    chats = named(spans, f"chat {MODEL}")
    assert {span.kind for span in chats} == {"client"}
    assert {span.attributes["gen_ai.request.model"] for span in chats} == {MODEL}
    # Every process sends its own spans when it likes.
    await observed.collector.until(
        lambda: roots(observed.spans(episode_id)) == {"invoke_agent podium"}
    )
    services = {"gateway", "episodes", "episodes-worker", "orchestrator-inference", "tool-adapters"}
    await observed.collector.until(
        lambda: services <= {span.service for span in observed.spans(episode_id)}
    )
    assert all(headers.get("x-key") == "secret" for headers in observed.collector.headers)


def roots(spans: list[CollectedSpan]) -> set[str]:
    """Names of what the spans hang on in the end; "" where a parent is missing."""
    by_id = {span.span_id: span for span in spans}
    return {root_of(span, by_id) for span in spans}


def root_of(span: CollectedSpan, by_id: dict[str, CollectedSpan]) -> str:
    if not span.parent_id:
        return span.name
    return root_of(by_id[span.parent_id], by_id) if span.parent_id in by_id else ""
