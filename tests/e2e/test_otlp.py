import json
import re
from typing import Any

import yaml

from e2e.conftest import MODEL, WholePlatform
from e2e.episodes_over_http import finished, start
from servers.otlp_collector import CollectedSpan
from unit.house.source_files import ROOT

TASK = "what is 6 x 7?"
SERVICES = {
    "gateway",
    "episodes",
    "tool-registry",
    "episodes-worker",
    "orchestrator-inference",
    "cost-ledger",
    "tool-adapters",
}


def named(spans: list[CollectedSpan], name: str) -> list[CollectedSpan]:
    return [span for span in spans if span.name == name]


def said(attribute: str) -> tuple[str, str]:
    [message] = json.loads(attribute)
    [part] = message["parts"]
    return message["role"], part["content"]


async def test_an_episode_is_an_agents_trace_of_tools_and_models(whole: WholePlatform) -> None:
    async with whole.client() as client:
        # Of a policy that no other test names, so that the registry is asked.
        episode_id = await start(client, task=TASK, policy="speed-first")
        episode: dict[str, Any] = await finished(client, episode_id)
    trace_id = episode_id.replace("-", "")

    def spans() -> list[CollectedSpan]:
        return [span for span in whole.collector.spans() if span.trace_id == trace_id]

    # Every process sends its own spans when it likes.
    await whole.collector.until(lambda: roots(spans()) == {"invoke_agent podium"})
    await whole.collector.until(lambda: len(named(spans(), f"chat {MODEL}")) == 3)
    await whole.collector.until(lambda: {span.service for span in spans()} >= SERVICES)
    [agent] = named(spans(), "invoke_agent podium")
    assert (agent.parent_id, agent.span_id) == ("", trace_id[16:])
    found = agent.attributes
    assert found["gen_ai.operation.name"] == "invoke_agent"
    assert found["gen_ai.conversation.id"] == episode_id
    assert found["podium.cost.amount"] == episode["cost"]["amount"]
    assert found["gen_ai.usage.input_tokens"] > 0 < found["gen_ai.usage.output_tokens"]
    assert said(found["gen_ai.input.messages"]) == ("user", TASK)
    assert said(found["gen_ai.output.messages"]) == ("assistant", episode["answer"])
    tools = named(spans(), "execute_tool calculator")
    attributes = {span.attributes["gen_ai.tool.call.id"]: span.attributes for span in tools}
    assert attributes.keys() == {f"{episode_id}/{turn}/tool/0" for turn in (1, 2)}
    tool = attributes[f"{episode_id}/1/tool/0"]
    assert tool["gen_ai.operation.name"] == "execute_tool"
    assert tool["gen_ai.tool.name"] == "calculator"
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"expression": "6*7"}
    assert "42" in tool["gen_ai.tool.call.result"]
    chats = named(spans(), f"chat {MODEL}")
    assert {span.kind for span in chats} == {"client"}
    assert {span.attributes["gen_ai.request.model"] for span in chats} == {MODEL}
    assert all(headers.get("x-key") == "secret" for headers in whole.collector.headers)


async def test_no_span_is_sent_that_is_not_documented(whole: WholePlatform) -> None:
    """A library that traces by itself may send what a trace must not hold, as a query's words."""
    async with whole.client() as client:
        (await client.get("/v1/episodes", params={"page_size": 1})).raise_for_status()
        await finished(client, await start(client, task=TASK))
    await whole.collector.until(
        lambda: {span.service for span in whole.collector.spans()} >= SERVICES
    )
    registry = yaml.safe_load((ROOT / "docs/telemetry.yaml").read_text())
    patterns = [re.escape(name) + r"( \S+)?" for name in registry["spans"]]
    patterns += [
        re.sub(r"\\\{.+?\\\}", r"\\S+", re.escape(name)) for name in registry["span_patterns"]
    ]
    documented = re.compile("|".join(patterns))
    names = {span.name for span in whole.collector.spans()}
    assert {name for name in names if not documented.fullmatch(name)} == set()


def roots(spans: list[CollectedSpan]) -> set[str]:
    """Names of what the spans hang on in the end; "" where a parent is missing."""
    by_id = {span.span_id: span for span in spans}
    return {root_of(span, by_id) for span in spans}


def root_of(span: CollectedSpan, by_id: dict[str, CollectedSpan]) -> str:
    if not span.parent_id:
        return span.name
    return root_of(by_id[span.parent_id], by_id) if span.parent_id in by_id else ""
