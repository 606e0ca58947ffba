import asyncio

import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns, tokens
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from podium.common.v1 import usage_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.metering.usage_reports import openai_usage
from podium_kit.wire import usage_to_proto

pytestmark = pytest.mark.asyncio(loop_scope="session")


def reported(count: float) -> usage_pb2.Usage:
    usage = openai_usage({"prompt_tokens": count, "completion_tokens": 5})
    assert usage is not None
    return usage_to_proto(usage)


def of_input(amount: str) -> usage_pb2.Usage:
    """A usage that an older worker let through: the ledger cannot read it."""
    usage = tokens(1, 1)
    usage.quantities[0].amount = amount
    return usage


POISON = [
    reported(10**17),
    reported(-5),
    reported(float("nan")),
    of_input("1" + "0" * 17),
    of_input("1e200000000"),
    of_input("NaN"),
    of_input("-5"),
    usage_pb2.Usage(),
]


@pytest.mark.parametrize("usage", POISON)
async def test_an_episode_with_unusable_usage_ends_with_its_calls_unpriced(
    platform: EpisodesPlatform, usage: usage_pb2.Usage
) -> None:
    platform.neighbours.orchestrator.usage = usage
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    async with platform.client() as client:
        episode = await finished(client, (await start(client)).id)
    assert (episode.stop_reason, episode.answer) == (episode_pb2.STOP_REASON_ANSWERED, "42")
    assert episode.unpriced_call_count == 2
    reasons = platform.neighbours.ledger.unpriced
    assert set(reasons) == {f"{episode.id}/{turn}/model/0" for turn in (1, 2)}
    assert all(10 < len(reason) <= 400 for reason in reasons.values())


async def test_an_episode_with_unusable_usage_can_be_cancelled(
    platform: EpisodesPlatform,
) -> None:
    platform.neighbours.orchestrator.usage = of_input("1" + "0" * 17)
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")))
    platform.neighbours.adapters.delay_s = 60
    async with platform.client() as client:
        episode = await start(client)
        while not platform.neighbours.adapters.in_flight:
            await asyncio.sleep(0.01)
        await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
        ended = await finished(client, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_CANCELLED
    # With the tool's call, which was cut off.
    assert ended.unpriced_call_count == 2
