from typing import Any

from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb

CUT = orchestrator_pb.Action(
    malformed=failure_pb2.Failure(
        kind=failure_pb2.FAILURE_KIND_MALFORMED_ACTION, message="the reply was cut"
    )
)


async def ended(platform: EpisodesPlatform, **spec: Any) -> episode_pb2.Episode:
    async with platform.client() as client:
        episode = await start(client, turn_limit=9, **spec)
        return await finished(client, episode.id)


async def test_the_third_cut_reply_ends_the_episode(platform: EpisodesPlatform) -> None:
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


async def test_two_cut_replies_do_not(platform: EpisodesPlatform) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.finish_reason = "length"
    neighbours.orchestrator.decide = in_turns(CUT, CUT, answer("42"))
    assert (await ended(platform)).answer == "42"


async def test_malformed_replies_that_are_whole_are_not_counted(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(CUT, CUT, CUT, CUT, answer("42"))
    assert (await ended(platform)).answer == "42"


async def test_a_budget_that_cut_them_is_the_reason(platform: EpisodesPlatform) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.finish_reason = "length"
    neighbours.orchestrator.decide = in_turns(CUT)
    neighbours.ledger.output_tokens_max = 70
    episode = await ended(platform)
    assert episode.stop_reason == episode_pb2.STOP_REASON_BUDGET_EXHAUSTED
    assert "the budget covered 70 tokens" in episode.failure.message
