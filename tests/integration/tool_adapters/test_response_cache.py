import asyncio
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.tool_specs import calculator_spec, llm_spec
from openai_server import OpenAiServer, Reply
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.registry.v1 import guardrail_pb2, policy_pb2, tool_pb2
from podium_kit.metering import Dimension, Quantity, Usage, UsageSource
from podium_kit.rpc.identity import Scope
from tool_adapters.adapter import Answer, Output
from tool_adapters.response_cache.models import CacheRule

USAGE = {"prompt_tokens": 100, "completion_tokens": 40}
HOUR = Duration(seconds=3600)


def cache(**fields: Any) -> policy_pb2.ResponseCache:
    return policy_pb2.ResponseCache(**{"ttl": HOUR, "quota_bytes": 1_000_000, **fields})


def asked(text: str = "hi", *, policy: str = "p", seed: int = 0, **fields: Any) -> dict[str, Any]:
    conversation = pb.Conversation(temperature=fields.pop("temperature", 0.0), seed=seed)
    conversation.messages.add(role="user", content=text)
    return {
        "conversation": conversation,
        "policy_name": policy,
        "cache": fields.pop("of", cache()),
        **fields,
    }


def server(*texts: str) -> OpenAiServer:
    replies = [Reply(text, usage=USAGE) for text in texts]
    return OpenAiServer(replies, models=("small-model", "large-model"))


async def test_an_equal_request_gets_the_answer_again_and_uses_nothing(
    adapters: AdaptersUnderTest,
) -> None:
    with server("first", "second") as provider:
        name = adapters.register(llm_spec(provider.base_url))
        first = await adapters.call(name, **asked())
        again = await adapters.call(name, **asked())
    assert (first.cached, again.cached) == (False, True)
    assert again.output.content == "first" and len(provider.requests) == 1
    assert first.usage.quantities and not again.usage.quantities
    # It is charged, and not given back: the ledger shows a call of no cost.
    assert not again.unsent


OTHERS: list[dict[str, Any]] = [
    {"text": "hello"},
    {"policy": "other"},
    {"seed": 7},
    {"max_output_tokens": 5},
    {"model_alias": "large"},
]


@pytest.mark.parametrize("other", OTHERS)
async def test_another_request_is_asked_for_itself(
    adapters: AdaptersUnderTest, other: dict[str, Any]
) -> None:
    with server("first", "second") as provider:
        name = adapters.register(llm_spec(provider.base_url))
        await adapters.call(name, **asked())
        answer = await adapters.call(name, **asked(**other))
    assert not answer.cached and answer.output.content == "second"


async def test_no_answer_crosses_tenants(adapters: AdaptersUnderTest) -> None:
    with server("acme's", "theirs") as provider:
        name = adapters.register(llm_spec(provider.base_url))
        await adapters.call(name, **asked())
        request = pb.InvokeRequest(
            key="e/0/tool/0",
            episode_id="e",
            tool_name=name,
            tool_version=1,
            model_alias="small",
            **asked(),
        )
        async with adapters.as_caller("rival", Scope.EPISODES_RUN) as stub:
            answer = await stub.Invoke(request)
    assert answer.output.content == "theirs" and not answer.cached


@pytest.mark.parametrize("fields", [{"temperature": 0.7}, {"of": cache(ttl=Duration(nanos=1))}])
async def test_sampled_and_expired_answers_are_not_given_again(
    adapters: AdaptersUnderTest, fields: dict[str, Any]
) -> None:
    with server("first", "second") as provider:
        name = adapters.register(llm_spec(provider.base_url))
        await adapters.call(name, **asked(**fields))
        answer = await adapters.call(name, **asked(**fields))
    assert answer.output.content == "second"


async def test_a_policy_may_have_sampled_answers_given_again(adapters: AdaptersUnderTest) -> None:
    with server("first", "second") as provider:
        name = adapters.register(llm_spec(provider.base_url))
        fields: dict[str, Any] = {"temperature": 0.7, "of": cache(sampled=True)}
        await adapters.call(name, **asked(**fields))
        answer = await adapters.call(name, **asked(**fields))
    assert answer.cached and answer.output.content == "first"


async def test_calls_with_effects_and_answers_that_are_not_whole_are_not_stored(
    adapters: AdaptersUnderTest,
) -> None:
    with OpenAiServer(
        [Reply("fir", finish_reason="length"), "second", "third"], models=("small-model",)
    ) as provider:
        spec = llm_spec(provider.base_url)
        name = adapters.register(spec)
        await adapters.call(name, **asked())
        assert (await adapters.call(name, **asked())).output.content == "second"
        spec.side_effect = tool_pb2.SIDE_EFFECT_EFFECTFUL
        spec.name = "acting"
        name = adapters.register(spec)
        await adapters.call(name, **asked())
        assert not (await adapters.call(name, **asked())).cached
    name = adapters.register(calculator_spec())
    for _ in range(2):
        answer = await adapters.call(name, {"expression": "1"}, policy_name="p", cache=cache())
        assert not answer.cached


async def test_the_oldest_answers_make_room(adapters: AdaptersUnderTest) -> None:
    of = cache(quota_bytes=3 * 900)
    with server(*("x" * 200 for _ in range(20))) as provider:
        name = adapters.register(llm_spec(provider.base_url))
        for place in range(5):
            await adapters.call(name, **asked(str(place), of=of))
        cached = [(await adapters.call(name, **asked(str(n), of=of))).cached for n in (4, 0)]
    assert cached == [True, False]


async def test_a_stream_replays_an_answer(adapters: AdaptersUnderTest) -> None:
    with server("first", "second") as provider:
        name = adapters.register(llm_spec(provider.base_url))
        await adapters.call(name, **asked())
        call = pb.InvokeRequest(
            key="e/0/tool/0",
            episode_id="e",
            tool_name=name,
            tool_version=1,
            model_alias="small",
            **asked(),
        )
        request = pb.InvokeStreamingRequest(call=call)
        events = [event async for event in adapters.stub.InvokeStreaming(request)]
    assert [event.WhichOneof("event") for event in events] == ["response"]
    assert events[0].response.cached and events[0].response.output.content == "first"


async def test_what_guardrails_redact_is_not_stored_and_they_read_what_is_given_again(
    adapters: AdaptersUnderTest,
) -> None:
    def guard(word: str, action: int) -> policy_pb2.Guardrail:
        return policy_pb2.Guardrail(
            name=word,
            action=guardrail_pb2.GuardrailAction.ValueType(action),
            stages=[guardrail_pb2.GUARDRAIL_STAGE_OUTPUT],
            deny=guardrail_pb2.DenyList(words=[word]),
        )

    redacts = guard("tulip", guardrail_pb2.GUARDRAIL_ACTION_REDACT)
    blocks = guard("rose", guardrail_pb2.GUARDRAIL_ACTION_BLOCK)
    with server("a rose, a tulip") as provider:
        name = adapters.register(llm_spec(provider.base_url))
        await adapters.call(name, **asked(guardrails=[redacts]))
        again = await adapters.call(name, **asked())
        blocked = await adapters.call(name, **asked(guardrails=[blocks]))
    assert again.cached and again.output.content == "a rose, a *****"
    assert blocked.cached and "blocked the result" in blocked.failure.message


async def test_equal_requests_at_once_store_one_answer(adapters: AdaptersUnderTest) -> None:
    with server(*("same" for _ in range(8))) as provider:
        name = adapters.register(llm_spec(provider.base_url))
        await asyncio.gather(*(adapters.call(name, **asked()) for _ in range(4)))
        assert (await adapters.call(name, **asked())).cached


AMOUNTS = st.decimals(min_value=0, max_value=10**9, places=3)


@given(st.lists(AMOUNTS, max_size=5), st.integers(min_value=0, max_value=100))
def test_a_hit_is_charged_exactly_its_share(amounts: list[Decimal], percent: int) -> None:
    dimensions = list(Dimension)
    quantities = tuple(map(Quantity, dimensions, amounts))
    stored = Answer(Output("x"), Usage(quantities, UsageSource.PROVIDER), "sku", 1.0, 1)
    hit = CacheRule("p", None, 1, False, percent).hit(stored)  # type: ignore[arg-type]
    assert sum(each.amount for each in hit.usage.quantities) * 100 == sum(amounts) * percent
    assert hit.cached and not hit.unsent
