import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns, tokens
from integration.episodes.platform_under_test import Platform, finished, new_id, start
from integration.episodes.test_charges import expert_toolset
from integration.episodes.test_local_tools import OSLO, WEATHER, offered, reply, requested, results
from podium.common.v1 import failure_pb2, money_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium_kit.rpc.errors import ResourceExhausted
from podium_kit.rpc.status import domain_error_from

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub


async def test_every_turn_gets_what_the_turns_before_it_left(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.usage = tokens(100, 300)
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    episode = await start(
        platform.ada, output_token_limit=500, sampling={"max_tokens": 400}, turn_limit=9
    )
    ended = await finished(platform.ada, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    first, second = neighbours.orchestrator.requests
    assert (first.sampling.max_tokens, first.must_answer) == (400, False)
    # 200 tokens are enough for an answer, and not for a call and an answer.
    assert (second.sampling.max_tokens, second.must_answer) == (200, True)


async def test_an_episode_ends_when_its_tokens_are_used_up(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.usage = tokens(100, 250)
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")))
    episode = await start(platform.ada, output_token_limit=550, turn_limit=9)
    ended = await finished(platform.ada, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_OUTPUT_LIMIT
    assert (ended.turn_count, ended.tool_call_count) == (2, 2)
    # Nothing is left held, and everything that was made is charged.
    assert neighbours.ledger.captured.keys() == neighbours.ledger.holds.keys()


@pytest.mark.parametrize(
    ("policy", "request_", "lower"), [(0, 0, 0), (0, 3, 3), (4, 0, 4), (4, 8, 4), (4, 2, 2)]
)
async def test_a_turn_has_as_many_calls_as_the_policy_and_the_request_allow(
    platform: Platform, policy: int, request_: int, lower: int
) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset.parallel_calls = policy
    await platform.run(parallel_calls=request_)
    assert [each.parallel_calls for each in neighbours.orchestrator.requests] == [lower]


async def test_llm_tools_share_what_the_model_left(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = expert_toolset()
    neighbours.orchestrator.usage = tokens(100, 100)
    expert = '{"model": "big"}'
    neighbours.orchestrator.decide = in_turns(
        calls(call("answer", expert), call("answer", expert, index=1), call("calculator", index=2)),
        calls(call("answer", expert)),
        answer("42"),
    )
    episode = await start(platform.ada, output_token_limit=260, turn_limit=9)
    await finished(platform.ada, episode.id)
    trajectory = await platform.trajectory(episode.id)
    asked_for = {each.key: each.max_output_tokens for each in neighbours.adapters.requests}
    assert asked_for[f"{episode.id}/1/tool/0"] == asked_for[f"{episode.id}/1/tool/1"] == 80
    [late] = trajectory.turns[1].tool_invocations
    assert late.observation.failure.kind == failure_pb2.FAILURE_KIND_LIMIT_EXCEEDED
    assert f"{episode.id}/2/tool/0" not in neighbours.ledger.holds


async def test_the_callers_results_begin_a_new_count(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = offered()
    neighbours.orchestrator.usage = tokens(100, 90)
    neighbours.orchestrator.decide = in_turns(calls(OSLO), answer("warm"))
    episode = await start(platform.ada, client_tools=[WEATHER], output_token_limit=100)
    await requested(platform.ada, episode.id)
    await reply(platform.ada, episode.id, **results(_0="cold"))
    ended = await finished(platform.ada, episode.id)
    assert ended.answer == "warm"
    assert [each.sampling.max_tokens for each in neighbours.orchestrator.requests] == [100, 100]


async def test_a_negative_limit_is_rejected(platform: Platform) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="output_token_limit is -1"):
        await start(platform.ada, output_token_limit=-1)


async def test_a_prompt_that_does_not_fit_says_so(platform: Platform) -> None:
    platform.neighbours.orchestrator.too_long = "9000 of 8192 tokens"
    ended = await platform.run()
    assert ended.stop_reason == episode_pb2.STOP_REASON_FAILED
    assert ended.failure.kind == failure_pb2.FAILURE_KIND_CONTEXT_TOO_LONG
    assert ended.failure.message == "9000 of 8192 tokens"


async def test_the_first_prompt_is_counted_and_no_episode_is_started(platform: Platform) -> None:
    neighbours = platform.neighbours
    budget = money_pb2.Money(currency_code="USD", amount="0.25")
    spec = episode_pb2.EpisodeSpec(task="what is 6 x 7?", budget=budget)
    counted = await platform.ada.CountPromptTokens(pb.CountPromptTokensRequest(spec=spec))
    listed = await platform.ada.ListEpisodes(pb.ListEpisodesRequest())
    with pytest.raises(grpc.aio.AioRpcError, match="spec is unset"):
        await platform.ada.CountPromptTokens(pb.CountPromptTokensRequest())
    await platform.run(budget=budget)
    assert counted.token_count == len(spec.task)
    assert not listed.episodes
    asked, real = neighbours.orchestrator.requests
    # What is left of the time has passed since the episode began.
    for request in (asked, real):
        request.ClearField("key")
        request.ClearField("time_left")
    assert asked == real


CUT = orchestrator_pb.Action(
    malformed=failure_pb2.Failure(
        kind=failure_pb2.FAILURE_KIND_MALFORMED_ACTION, message="the reply was cut"
    )
)


async def ended(platform: Platform, **spec: Any) -> episode_pb2.Episode:
    episode = await start(platform.ada, turn_limit=9, **spec)
    return await finished(platform.ada, episode.id)


async def test_the_third_cut_reply_ends_the_episode(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.finish_reason = "length"
    neighbours.orchestrator.decide = in_turns(CUT, calls(call("calculator")), CUT, CUT, answer("4"))
    episode = await ended(platform, sampling={"max_tokens": 64})
    assert episode.stop_reason == episode_pb2.STOP_REASON_FAILED
    assert episode.failure.kind == failure_pb2.FAILURE_KIND_LIMIT_EXCEEDED
    assert "3 replies" in episode.failure.message
    assert "(64 tokens)" in episode.failure.message
    assert "raise max_tokens" in episode.failure.message
    # The call in between was whole and was made; every reply is charged and nothing stays held.
    assert (episode.turn_count, episode.tool_call_count) == (4, 1)
    assert neighbours.ledger.captured.keys() == neighbours.ledger.holds.keys()


async def test_two_cut_replies_do_not(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.finish_reason = "length"
    neighbours.orchestrator.decide = in_turns(CUT, CUT, answer("42"))
    assert (await ended(platform)).answer == "42"


async def test_malformed_replies_that_are_whole_are_not_counted(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(CUT, CUT, CUT, CUT, answer("42"))
    assert (await ended(platform)).answer == "42"


async def test_a_budget_that_cut_them_is_the_reason(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.finish_reason = "length"
    neighbours.orchestrator.decide = in_turns(CUT)
    neighbours.ledger.output_tokens_max = 70
    episode = await ended(platform)
    assert episode.stop_reason == episode_pb2.STOP_REASON_BUDGET_EXHAUSTED
    assert "the budget covered 70 tokens" in episode.failure.message


STARTS, LIMIT = 50, 7


def request_of(episode_id: str) -> pb.StartEpisodeRequest:
    spec = episode_pb2.EpisodeSpec(task="what is 6 x 7?")
    return pb.StartEpisodeRequest(episode_id=episode_id, spec=spec, running_limit=LIMIT)


async def admitted(client: "EpisodeServiceAsyncStub", episode_id: str) -> bool:
    try:
        await client.StartEpisode(request_of(episode_id))
    except grpc.aio.AioRpcError as rejection:
        error = domain_error_from(rejection)
        assert isinstance(error, ResourceExhausted), rejection
        assert error.reason == "TOO_MANY_RUNNING"
        assert f"{LIMIT} episodes at once" in error.message
        assert "cancel one" in error.message
        return False
    return True


async def test_fifty_starts_at_once_admit_exactly_the_limit(platform: Platform) -> None:
    # No episode ends while the test counts.
    platform.neighbours.orchestrator.delay_s = 600.0
    ids = [new_id() for _ in range(STARTS)]
    async with platform.client() as client, platform.client(f"{platform.tenant}-2") as other:
        answers = await asyncio.gather(*(admitted(client, one) for one in ids))
        running = [one for one, taken in zip(ids, answers, strict=True) if taken]
        assert len(running) == LIMIT
        # The retry of a start that succeeded finds its episode; another tenant has its own limit.
        assert await admitted(client, running[0])
        assert await admitted(other, new_id())
        # A rejected start left nothing behind.
        listed = await client.ListEpisodes(pb.ListEpisodesRequest(page_size=500))
        assert {episode.id for episode in listed.episodes} == set(running)
        await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=running[0]))
        await finished(client, running[0])
        again = await asyncio.gather(*(admitted(client, new_id()) for _ in range(10)))
        assert sum(again) == 1
    await platform.end_episodes(f"{platform.tenant}-2")
