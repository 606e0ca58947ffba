import grpc
import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns, tokens
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from integration.episodes.test_clamping import expert_toolset
from integration.episodes.test_client_tools import OSLO, WEATHER, asked, offered, reply, results
from podium.common.v1 import failure_pb2, money_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb


async def test_every_turn_gets_what_the_turns_before_it_left(platform: EpisodesPlatform) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.usage = tokens(100, 300)
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    async with platform.client() as client:
        episode = await start(
            client, output_token_limit=500, sampling={"max_tokens": 400}, turn_limit=9
        )
        ended = await finished(client, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    first, second = neighbours.orchestrator.requests
    assert (first.sampling.max_tokens, first.must_answer) == (400, False)
    # 200 tokens are enough for an answer, and not for a call and an answer.
    assert (second.sampling.max_tokens, second.must_answer) == (200, True)


async def test_an_episode_ends_when_its_tokens_are_used_up(platform: EpisodesPlatform) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.usage = tokens(100, 250)
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")))
    async with platform.client() as client:
        episode = await start(client, output_token_limit=550, turn_limit=9)
        ended = await finished(client, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_OUTPUT_LIMIT
    assert (ended.turn_count, ended.tool_call_count) == (2, 2)
    # Nothing is left held, and everything that was made is charged.
    assert neighbours.ledger.captured.keys() == neighbours.ledger.holds.keys()


async def test_llm_tools_share_what_the_model_left(platform: EpisodesPlatform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = expert_toolset()
    neighbours.orchestrator.usage = tokens(100, 100)
    expert = '{"model": "big"}'
    neighbours.orchestrator.decide = in_turns(
        calls(call("answer", expert), call("answer", expert, index=1), call("calculator", index=2)),
        calls(call("answer", expert)),
        answer("42"),
    )
    async with platform.client() as client:
        episode = await start(client, output_token_limit=260, turn_limit=9)
        await finished(client, episode.id)
        found = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id))
    asked_for = {each.key: each.max_output_tokens for each in neighbours.adapters.requests}
    assert asked_for[f"{episode.id}/1/tool/0"] == asked_for[f"{episode.id}/1/tool/1"] == 80
    [late] = found.trajectory.turns[1].tool_invocations
    assert late.observation.failure.kind == failure_pb2.FAILURE_KIND_LIMIT_EXCEEDED
    assert f"{episode.id}/2/tool/0" not in neighbours.ledger.holds


async def test_the_callers_results_begin_a_new_count(platform: EpisodesPlatform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = offered()
    neighbours.orchestrator.usage = tokens(100, 90)
    neighbours.orchestrator.decide = in_turns(calls(OSLO), answer("warm"))
    async with platform.client() as client:
        episode = await start(client, client_tools=[WEATHER], output_token_limit=100)
        await asked(client, episode.id)
        await reply(client, episode.id, **results(_0="cold"))
        ended = await finished(client, episode.id)
    assert ended.answer == "warm"
    assert [each.sampling.max_tokens for each in neighbours.orchestrator.requests] == [100, 100]


async def test_a_negative_limit_is_rejected(platform: EpisodesPlatform) -> None:
    async with platform.client() as client:
        with pytest.raises(grpc.aio.AioRpcError, match="output_token_limit is -1"):
            await start(client, output_token_limit=-1)


async def test_a_prompt_that_does_not_fit_says_so(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.too_long = "9000 of 8192 tokens"
    async with platform.client() as client:
        ended = await finished(client, (await start(client)).id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_FAILED
    assert ended.failure.kind == failure_pb2.FAILURE_KIND_CONTEXT_TOO_LONG
    assert ended.failure.message == "9000 of 8192 tokens"


async def test_the_first_prompt_is_counted_and_no_episode_is_started(
    platform: EpisodesPlatform,
) -> None:
    neighbours = platform.neighbours
    budget = money_pb2.Money(currency_code="USD", amount="0.25")
    spec = episode_pb2.EpisodeSpec(task="what is 6 x 7?", budget=budget)
    async with platform.client() as client:
        counted = await client.CountPromptTokens(pb.CountPromptTokensRequest(spec=spec))
        listed = await client.ListEpisodes(pb.ListEpisodesRequest())
        with pytest.raises(grpc.aio.AioRpcError, match="spec is unset"):
            await client.CountPromptTokens(pb.CountPromptTokensRequest())
        await finished(client, (await start(client, budget=budget)).id)
    assert counted.token_count == len(spec.task)
    assert not listed.episodes
    asked, real = neighbours.orchestrator.requests
    # What is left of the time has passed since the episode began.
    for request in (asked, real):
        request.ClearField("key")
        request.ClearField("time_left")
    assert asked == real
