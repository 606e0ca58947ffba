"""A model of several endpoints: balanced, left alone after a failure, each with its own key."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.test_llm_tools import serving
from integration.tool_adapters.tool_specs import llm_spec, tool_limits
from openai_server import OpenAiServer, Reply
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.embedded.ports import free_port

# Longer than any test: an endpoint that rests is not asked again.
LONG = {"retry-after": "3600"}


def at(*urls: str, secrets: tuple[str, ...] = (), attempts: int = 1, **fields: Any) -> Any:
    """A tool whose models have these endpoints."""
    spec = llm_spec("", limits=tool_limits(attempts=attempts), **fields)
    for model in spec.connection.llm.models:
        for number, url in enumerate(urls):
            secret = tool_pb2.SecretRef(name=secrets[number]) if secrets else None
            model.endpoints.add(base_url=url, secret=secret)
    return spec


async def test_calls_go_to_the_endpoint_with_the_fewest_in_flight(
    adapters: AdaptersUnderTest,
) -> None:
    asked = threading.Barrier(2, timeout=60)

    def both_are_asked(body: Mapping[str, Any]) -> str:
        asked.wait()
        return "yes"

    with serving(both_are_asked) as first, serving(both_are_asked) as second:
        tool = adapters.register(at(first.base_url, second.base_url))
        answers = await asyncio.gather(*(adapters.call(tool) for _ in range(2)))
    assert [answer.output.content for answer in answers] == ["yes", "yes"]
    assert (len(first.requests), len(second.requests)) == (1, 1)


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
async def test_an_endpoint_that_fails_is_left_alone_while_another_one_answers(
    adapters: AdaptersUnderTest, status: int
) -> None:
    with serving(Reply(status=status, headers=LONG)) as failing, serving() as other:
        tool = adapters.register(at(failing.base_url, other.base_url))
        answers = [await adapters.call(tool) for _ in range(3)]
    assert [(it.output.content, it.attempts, it.sku) for it in answers] == [
        ("ok", 1, "small-sku")
    ] * 3
    assert (len(failing.requests), len(other.requests)) == (1, 3)


async def test_an_endpoint_that_cannot_be_reached_costs_nothing(
    adapters: AdaptersUnderTest,
) -> None:
    gone = f"http://127.0.0.1:{free_port()}/v1"
    with serving() as other:
        answer = await adapters.call(adapters.register(at(gone, other.base_url)))
    nowhere = await adapters.call(adapters.register(at(gone, f"{gone}/other")))
    assert answer.output.content == "ok"
    assert nowhere.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert nowhere.unsent
    assert not nowhere.usage.quantities


async def test_an_alias_fails_when_all_of_its_endpoints_do(adapters: AdaptersUnderTest) -> None:
    busy = Reply("too many requests", status=429, headers=LONG)
    away = Reply("overloaded", status=503, headers={"retry-after": "1800"})
    with serving(busy) as first, serving(away) as second:
        tool = adapters.register(at(first.base_url, second.base_url))
        failed = (await adapters.call(tool)).failure
        again = await adapters.call(tool)
    assert "endpoint 1: the tool answered with status 429: too many requests" in failed.message
    assert "endpoint 2: the tool answered with status 503: overloaded" in failed.message
    # The failure of the endpoint that can be asked first.
    assert failed.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert 0 < failed.retry_after.ToSeconds() <= 1800
    assert "endpoint 1 is left alone for" in again.failure.message
    assert again.unsent
    assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_the_endpoint_whose_pause_ends_first_is_waited_for(
    adapters: AdaptersUnderTest,
) -> None:
    soon = Reply(status=429, headers={"retry-after": "0.2"})
    with serving(Reply(status=429, headers=LONG)) as first, serving(soon, "42") as second:
        tool = adapters.register(at(first.base_url, second.base_url, attempts=2))
        answer = await adapters.call(tool)
    assert (answer.output.content, answer.attempts) == ("42", 2)
    assert (len(first.requests), len(second.requests)) == (1, 2)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply("half of an answer", cut_after=8), id="what was bought"),
        pytest.param(Reply("bad request", status=400), id="a question that is wrong anywhere"),
    ],
)
async def test_no_second_endpoint_is_asked(adapters: AdaptersUnderTest, reply: Reply) -> None:
    with serving(reply) as first, serving() as second:
        answer = await adapters.call(adapters.register(at(first.base_url, second.base_url)))
    assert answer.HasField("failure")
    assert not second.requests


async def test_each_endpoint_gets_its_own_key(
    adapters: AdaptersUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_KEY_ONE", "first-key-4f1")
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_KEY_TWO", "second-key-9c7")
    echo = Reply("Incorrect API key provided: first-key-4f1", status=401, headers=LONG)
    with serving(echo) as first, serving(Reply(status=503, headers=LONG)) as second:
        urls = first.base_url, second.base_url
        tool = adapters.register(at(*urls, secrets=("key-one", "key-two")))
        failed = await adapters.call(tool)
    assert sent_keys(first) == ["Bearer first-key-4f1"]
    assert sent_keys(second) == ["Bearer second-key-9c7"]
    assert "provided: [secret]" in failed.failure.message


async def test_what_one_tenant_breaks_is_not_broken_for_others(
    adapters: AdaptersUnderTest,
) -> None:
    failures = [Reply(status=500, headers=LONG)]
    with serving(*failures) as first, serving(*failures) as second:
        tool = adapters.register(at(first.base_url, second.base_url))
        poisoned = await adapters.call(tool)
        async with adapters.as_caller("umbrella") as stub:
            answer = await stub.Invoke(
                pb.InvokeRequest(
                    key="other/0/tool/0",
                    episode_id="other",
                    tool_name=tool,
                    tool_version=1,
                    arguments_json="{}",
                    model_alias="small",
                )
            )
    assert poisoned.HasField("failure")
    assert answer.output.content == "ok"


async def test_vectors_come_from_another_endpoint_too(adapters: AdaptersUnderTest) -> None:
    with serving(Reply(status=429, headers=LONG)) as first, serving() as second:
        spec = at(
            first.base_url,
            second.base_url,
            api="OPENAI_EMBEDDINGS",
            llm={"role": tool_pb2.LLM_ROLE_EMBEDDER},
        )
        answer = await adapters.call(adapters.register(spec), {"input": ["Oslo"], "model": "small"})
    assert not answer.HasField("failure"), answer.failure.message
    assert len(second.requests) == 1


def sent_keys(server: OpenAiServer) -> list[str]:
    return [headers["authorization"] for headers in server.headers]


async def test_a_model_that_cannot_answer_now_is_reported_until_it_answers(
    adapters: AdaptersUnderTest,
) -> None:
    async def reported(tool: str, calls: int) -> tool_pb2.ToolFacts:
        while True:
            facts = await adapters.registry.facts_of(tool)
            found = next(each for each in facts if each.model_alias == "small")
            if found.sample_count >= calls:
                return found
            await asyncio.sleep(0.01)

    quota = {"code": "insufficient_quota", "message": "no credit"}
    exhausted = Reply(status=429, error=quota)
    limited = Reply("slow down", status=429, headers=LONG)
    with serving(limited, exhausted, Reply(status=503), "42") as server:
        tool = adapters.register(llm_spec(server.base_url, limits=tool_limits(attempts=1)))
        await adapters.call(tool)
        first = await reported(tool, 1)
        assert first.unavailable_reason == "it is rate-limited"
        assert first.unavailable_for.ToTimedelta().total_seconds() > 3_000
        await adapters.call(tool)
        assert (await reported(tool, 2)).unavailable_reason == "its quota is used up"
        await adapters.call(tool)
        assert not (await reported(tool, 3)).HasField("unavailable_for"), "one failure says little"
        await adapters.call(tool)
        assert not (await reported(tool, 4)).unavailable_reason
