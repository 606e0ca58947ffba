from decimal import Decimal

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from integration.gateway.gateway_under_test import Gateway
from integration.gateway.protocols.test_client_tools import WEATHER, asks, tells, with_results
from integration.gateway.scripted_episodes import make_decision, make_failure, make_finish
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb

TASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "6*7?"}]


def by_seed(request: pb.StartEpisodeRequest) -> list[episode_pb2.EpisodeEvent]:
    seed = request.spec.sampling.seed
    if seed == 13:
        return [make_finish("FAILED", failure=make_failure("UNAVAILABLE", "no model answers"))]
    return [make_decision(1, final_answer="x"), make_finish(answer=f"seed {seed}; and more")]


async def test_every_choice_is_an_episode_and_all_share_the_budget(gateway: Gateway) -> None:
    gateway.episodes.script = by_seed
    async with gateway.openai() as client:
        answer = await client.chat.completions.create(
            model="podium",
            messages=TASK,
            n=3,
            seed=7,
            extra_body={"podium": {"budget_usd": "0.1"}},
            extra_headers={"idempotency-key": "three"},
        )
        again = await client.chat.completions.create(
            model="podium",
            messages=TASK,
            n=3,
            seed=7,
            extra_body={"podium": {"budget_usd": "0.1"}},
            extra_headers={"idempotency-key": "three"},
        )
    assert [(each.index, each.message.content) for each in answer.choices] == [
        (0, "seed 7; and more"),
        (1, "seed 8; and more"),
        (2, "seed 9; and more"),
    ]
    assert answer.usage and answer.usage.total_tokens == 3 * 175
    extra = (answer.model_extra or {})["podium"]
    assert Decimal(extra["cost"]["amount"]) == 3 * Decimal("0.00023")
    ids = [each["episode_id"] for each in extra["choices"]]
    assert ids == list(gateway.episodes.episodes)
    assert (again.model_extra or {})["podium"]["choices"] == extra["choices"]
    shares = [each.request.spec.budget.amount for each in gateway.episodes.episodes.values()]
    assert set(shares) == {"0.033333333333"}


async def test_a_choice_without_an_answer_is_left_out_unless_none_has_one(gateway: Gateway) -> None:
    gateway.episodes.script = by_seed
    async with gateway.openai() as client:
        answer = await client.chat.completions.create(
            model="podium", messages=TASK, n=2, seed=12, stop=";"
        )
        with pytest.raises(openai.InternalServerError) as raised:
            await client.with_options(max_retries=0).chat.completions.create(
                model="podium", messages=TASK, seed=13
            )
    [choice] = answer.choices
    assert (choice.index, choice.message.content, choice.finish_reason) == (0, "seed 12", "stop")
    reasons = [each["stop_reason"] for each in (answer.model_extra or {})["podium"]["choices"]]
    assert reasons == ["answered", "failed"]
    assert raised.value.status_code == 503


@pytest.mark.parametrize("include_usage", [True, False])
async def test_choices_stream_beside_each_other(gateway: Gateway, include_usage: bool) -> None:
    gateway.episodes.script = by_seed
    said: dict[int, str] = {}
    async with gateway.openai() as client:
        stream = await client.chat.completions.create(
            model="podium",
            messages=TASK,
            n=2,
            seed=1,
            stop=[";"],
            stream=True,
            stream_options={"include_usage": include_usage},
        )
        chunks = [chunk async for chunk in stream]
    for chunk in chunks:
        for choice in chunk.choices:
            said[choice.index] = said.get(choice.index, "") + (choice.delta.content or "")
    assert said == {0: "seed 1", 1: "seed 2"}
    assert all("usage" in chunk.model_fields_set for chunk in chunks) == include_usage
    used = [chunk.usage.total_tokens for chunk in chunks if chunk.usage]
    assert used == ([350] if include_usage else [])


async def test_what_cannot_start_whole_takes_back_what_had_started(gateway: Gateway) -> None:
    gateway.episodes.script = lambda request: []
    gateway.episodes.episodes_max = 2
    reply = await gateway.post(
        "/v1/chat/completions", json={"model": "podium", "messages": TASK, "n": 3}
    )
    assert (reply.status_code, reply.json()["error"]["reason"]) == (429, "TOO_MANY_RUNNING")
    assert gateway.episodes.cancel_reasons.keys() == gateway.episodes.episodes.keys()


async def test_results_go_on_with_one_episode(gateway: Gateway) -> None:
    gateway.episodes.script, gateway.episodes.sequel = asks, tells
    async with gateway.openai() as client:
        first = await client.chat.completions.create(
            model="podium", messages=TASK, tools=[WEATHER], n=2
        )
        assert {each.finish_reason for each in first.choices} == {"tool_calls"}
        second = first.model_copy(update={"choices": first.choices[1:]})
        results = with_results(second, "cold", "hot")
        with pytest.raises(openai.BadRequestError, match="results continue with one episode"):
            await client.chat.completions.create(model="podium", messages=results, n=2)
        answer = await client.chat.completions.create(model="podium", messages=results)
    assert answer.choices[0].message.content == "It is cold and hot."
    assert answer.id.removeprefix("chatcmpl-") == list(gateway.episodes.episodes)[1]
