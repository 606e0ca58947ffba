from decimal import Decimal

import grpc
import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from podium.common.v1 import money_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import trajectory_pb2

FACTORS = {"tool/calculator": "2.5", "orchestrator/scripted": "0.1", "tool/unused": "9"}


async def test_features_count_by_the_schedule_and_the_bill_by_the_prices(
    platform: EpisodesPlatform,
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(
        calls(call("calculator"), call("search", index=1)), answer("42")
    )
    found = await trajectory(platform, FACTORS)
    assert dict(found.price_factors) == FACTORS
    charged = platform.neighbours.ledger.total(found.episode_id)
    assert Decimal(found.cost.amount) == charged
    models = [turn.model_call.cost for turn in found.turns]
    calculator, search = (each.cost for each in found.turns[0].tool_invocations)
    scheduled = [
        *(scaled(cost, "0.1") for cost in models),
        scaled(calculator, "2.5"),
        scaled(search, "1"),
    ]
    assert Decimal(found.features.cost.amount) == sum(scheduled)


def scaled(cost: money_pb2.Money, factor: str) -> Decimal:
    return (Decimal(cost.amount) * Decimal(factor)).quantize(Decimal("1e-12"))


async def test_the_registry_gets_the_schedule(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer("42"))
    await trajectory(platform, FACTORS)
    [asked] = platform.neighbours.registry.asked
    assert dict(asked.price_factors) == FACTORS


async def test_without_a_schedule_features_count_what_was_charged(
    platform: EpisodesPlatform,
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    found = await trajectory(platform, {})
    assert found.features.cost == found.cost


async def test_a_schedule_that_makes_no_sense_is_rejected(platform: EpisodesPlatform) -> None:
    async with platform.client() as client:
        with pytest.raises(grpc.aio.AioRpcError, match=r"tool/calculator.* is .*-1"):
            await start(client, price_factors={"tool/calculator": "-1"})


async def trajectory(
    platform: EpisodesPlatform, factors: dict[str, str]
) -> trajectory_pb2.Trajectory:
    async with platform.client() as client:
        episode = await finished(client, (await start(client, price_factors=factors)).id)
        request = pb.GetTrajectoryRequest(episode_id=episode.id)
        return (await client.GetTrajectory(request)).trajectory
