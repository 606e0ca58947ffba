import asyncio

import pytest

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.anthropic_server import AnthropicServer, started, stopped, wrote
from integration.tool_adapters.test_llm_tools import counted, serving
from integration.tool_adapters.tool_specs import llm_spec, tool_limits
from openai_server import Reply
from podium.common.v1 import failure_pb2, usage_pb2
from podium.registry.v1 import tool_pb2

ANTHROPIC = "ANTHROPIC_MESSAGES"


async def test_a_streamed_message_is_put_together_with_its_last_totals(
    adapters: AdaptersUnderTest,
) -> None:
    usage = started(input_tokens=20, output_tokens=1, cache_read_input_tokens=5)
    events = [usage, {"type": "ping"}, wrote("4"), wrote("2"), stopped(output_tokens=7)]
    async with AnthropicServer(events) as server:
        answer = await adapters.call(adapters.register(llm_spec(server.base_url, ANTHROPIC)))
    assert answer.output.content == "42"
    assert counted(answer) == {"INPUT_FRESH": 20, "CACHE_READ": 5, "OUTPUT_TEXT": 7}
    assert answer.usage.source == usage_pb2.USAGE_SOURCE_PROVIDER
    assert answer.model_alias == "small"


@pytest.mark.parametrize("ending", ["cut", "end"])
async def test_a_stream_cut_in_the_middle_keeps_its_text_and_its_reported_usage(
    adapters: AdaptersUnderTest, ending: str
) -> None:
    events = [started(input_tokens=20, output_tokens=1), wrote("a long beginning of an answer")]
    async with AnthropicServer(events, ending) as server:
        spec = llm_spec(server.base_url, ANTHROPIC, limits=tool_limits(attempts=3))
        answer = await adapters.call(adapters.register(spec))
    assert "a long beginning" in answer.failure.message
    assert counted(answer) == {"INPUT_FRESH": 20, "OUTPUT_TEXT": 8}
    assert answer.usage.source == usage_pb2.USAGE_SOURCE_ESTIMATED
    # What was paid for is not bought again by itself.
    assert answer.attempts == 1


async def test_a_stream_that_stops_coming_is_charged_for_what_came(
    adapters: AdaptersUnderTest,
) -> None:
    events = [started(input_tokens=20, output_tokens=1), wrote("a long beginning of an answer")]
    async with AnthropicServer(events, "hang") as server:
        spec = llm_spec(server.base_url, ANTHROPIC, limits=tool_limits(timeout_s=0.5))
        answer = await adapters.call(adapters.register(spec))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_TIMEOUT
    assert "a long beginning" in answer.failure.message
    assert counted(answer) == {"INPUT_FRESH": 20, "OUTPUT_TEXT": 8}


async def test_an_error_in_the_stream_is_what_its_status_would_have_been(
    adapters: AdaptersUnderTest,
) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    async with AnthropicServer([started(input_tokens=20), error]) as server:
        answer = await adapters.call(adapters.register(llm_spec(server.base_url, ANTHROPIC)))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert "Overloaded" in answer.failure.message
    assert answer.attempts == 1


async def test_an_openai_stream_cut_in_the_middle_is_charged_an_estimate(
    adapters: AdaptersUnderTest,
) -> None:
    with serving(Reply("a long beginning of an answer", cut_after=16)) as server:
        answer = await adapters.call(adapters.register(llm_spec(server.base_url)))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert "a long beginning" in answer.failure.message
    assert counted(answer)["OUTPUT_TEXT"] == 4


async def test_the_next_allowed_model_answers_under_its_own_name_and_price(
    adapters: AdaptersUnderTest,
) -> None:
    overloaded = Reply(status=503)
    with serving(overloaded, "42") as server:
        name = adapters.register(llm_spec(server.base_url))
        answer = await adapters.call(name, {"model": "small"}, fallback_models=["small", "large"])
    assert answer.output.content == "42"
    assert (answer.model_alias, answer.sku) == ("large", "large-sku")
    assert [asked["model"] for asked in server.requests] == ["small-model", "large-model"]


async def test_without_permission_no_other_model_answers(adapters: AdaptersUnderTest) -> None:
    with serving(Reply(status=503), "42") as server:
        answer = await adapters.call(adapters.register(llm_spec(server.base_url)))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert (answer.model_alias, answer.sku) == ("small", "small-sku")


async def test_a_model_that_wrote_something_is_not_replaced(adapters: AdaptersUnderTest) -> None:
    with serving(Reply("half of it", cut_after=4), "42") as server:
        name = adapters.register(llm_spec(server.base_url))
        answer = await adapters.call(name, fallback_models=["large"])
    assert answer.model_alias == "small"
    assert len(server.requests) == 1


async def test_a_model_left_alone_by_its_breaker_is_replaced_at_once(
    adapters: AdaptersUnderTest,
) -> None:
    with serving(*[Reply(status=503)] * 5, "42") as server:
        name = adapters.register(llm_spec(server.base_url))
        for _ in range(5):
            await adapters.call(name)
        answer = await adapters.call(name, fallback_models=["large"])
    assert answer.model_alias == "large"
    assert len(server.requests) == 6


async def test_tools_share_the_places_at_their_provider(narrow: AdaptersUnderTest) -> None:
    with serving(delay_s=0.1) as server:
        names = []
        for number in range(3):
            spec = llm_spec(server.base_url)
            spec.name = f"expert-{number}"
            names.append(narrow.register(spec))
        answers = await asyncio.gather(*(narrow.call(name) for name in names * 2))
    assert [answer.output.content for answer in answers] == ["ok"] * 6
    assert server.in_flight_max <= 2


async def test_every_role_has_its_own_prompt_and_a_tool_may_have_another(
    adapters: AdaptersUnderTest,
) -> None:
    with serving() as server:
        for role in (tool_pb2.LLM_ROLE_GENERALIST, tool_pb2.LLM_ROLE_JUDGE):
            spec = llm_spec(server.base_url, llm={"role": role})
            spec.name = f"expert-{role}"
            await adapters.call(adapters.register(spec), {"prompt": "Right?"}, task="6 * 7?")
    generalist, judge = ([m["content"] for m in asked["messages"]] for asked in server.requests)
    assert "expert" in generalist[0]
    assert "verdict" in judge[0]
    assert generalist[1] == "Task:\n6 * 7?\n\nRight?"
