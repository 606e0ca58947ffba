import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import duration_pb2

from episodes.execution.call_tools import FAULTS_MAX
from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import EpisodesPlatform, events, finished, start
from integration.episodes.tenants import Outage
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import check_pb2, episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.rpc.errors import DomainError, FailedPrecondition, InternalError, Unavailable

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADAPTERS, LEDGER = "ToolAdapterService/Invoke", "CostLedgerService/Apply"
AWAY = Unavailable("connection refused", retry_after_s=0.01)
FAULT = InternalError(retry_after_s=0.01)
REJECTED = FailedPrecondition("the adapters do not serve tools of this kind yet")


@pytest.fixture(autouse=True)
def one_call(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))


async def test_a_call_that_may_have_been_made_has_an_unknown_cost_and_no_open_hold(
    platform: EpisodesPlatform,
) -> None:
    # The adapters meet a fault of their own at every attempt, made or not.
    outage = platform.tenants.fail(platform.tenant, ADAPTERS, error=FAULT)
    async with platform.client() as client:
        ended = await finished(client, (await start(client)).id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert outage.calls == FAULTS_MAX
    [invocation] = await _invocations(platform, ended.id)
    assert invocation.observation.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert not invocation.HasField("cost") and not invocation.unsent
    assert "not known" in invocation.usage.unusable_reason
    assert ended.unpriced_call_count == 1
    ledger = platform.neighbours.ledger
    assert ledger.unpriced == {invocation.key: invocation.usage.unusable_reason}
    assert set(ledger.holds) == set(ledger.captured)


@pytest.mark.parametrize(
    ("error", "unpriced"), [(FAULT, 1), (REJECTED, 0)], ids=["fault", "rejected"]
)
async def test_a_verifiers_call_without_an_answer_leaves_no_open_hold(
    platform: EpisodesPlatform, error: DomainError, unpriced: int
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer("42"))
    platform.tenants.fail(platform.tenant, ADAPTERS, error=error)
    look = json.dumps({"look": {"tool": "search", "arguments": {}}, "expected": 1})
    check = check_pb2.Check(verifier="state", parameters_json=look)
    async with platform.client() as client:
        ended = await finished(client, (await start(client, check=check)).id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert ended.unpriced_call_count == unpriced
    ledger = platform.neighbours.ledger
    assert len(ledger.unpriced) == unpriced
    assert set(ledger.holds) == set(ledger.captured) | ledger.released


async def test_a_call_that_is_denied_when_it_is_tried_again_leaves_no_open_hold(
    platform: EpisodesPlatform,
) -> None:
    outage = platform.tenants.fail(platform.tenant, ADAPTERS, error=AWAY)
    async with platform.client() as client:
        episode = await start(client)
        await _met(outage, 2)
        platform.neighbours.policies.rejected = {"calculator": "not today"}
        ended = await finished(client, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    # The first attempts may have made it all the same.
    assert ended.unpriced_call_count == 1
    ledger = platform.neighbours.ledger
    assert set(ledger.unpriced) == {f"{ended.id}/1/tool/0"}
    assert set(ledger.holds) == set(ledger.captured)


@pytest.mark.parametrize(
    ("cut", "kind"),
    [
        ("cancel", failure_pb2.FAILURE_KIND_CANCELLED),
        ("deadline", failure_pb2.FAILURE_KIND_TIMEOUT),
    ],
    ids=["cancel", "deadline"],
)
async def test_a_tools_call_that_the_episodes_end_cuts_off_has_an_unknown_cost(
    platform: EpisodesPlatform, cut: str, kind: failure_pb2.FailureKind.ValueType
) -> None:
    platform.neighbours.adapters.delay_s = 60
    async with platform.client() as client:
        episode = await start(client, **_limit(cut))
        await _until(lambda: bool(platform.neighbours.adapters.invoked))
        if cut == "cancel":
            await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
        ended = await finished(client, episode.id)
    [invocation] = await _invocations(platform, ended.id)
    assert invocation.observation.failure.kind == kind
    assert "cut off" in invocation.usage.unusable_reason and not invocation.HasField("cost")
    assert ended.unpriced_call_count == 1
    ledger = platform.neighbours.ledger
    assert ledger.unpriced == {invocation.key: invocation.usage.unusable_reason}
    assert set(ledger.holds) == set(ledger.captured)


@pytest.mark.parametrize("cut", ["cancel", "deadline"])
async def test_a_model_call_that_the_episodes_end_cuts_off_has_an_unknown_cost(
    platform: EpisodesPlatform, cut: str
) -> None:
    platform.neighbours.orchestrator.delay_s = 60
    async with platform.client() as client:
        episode = await start(client, **_limit(cut))
        await _until(platform.neighbours.orchestrator.was_asked.is_set)
        if cut == "cancel":
            await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
        seen = await events(client, episode.id)
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id))
    _, decided, last = seen
    assert "cut off" in decided.action_decided.action.malformed.message
    assert last.finished.episode.unpriced_call_count == 1
    [turn] = reply.trajectory.turns
    call, ledger = turn.model_call, platform.neighbours.ledger
    assert call.failure.message and not call.HasField("response") and not call.HasField("cost")
    assert ledger.unpriced == {call.key: call.failure.message}
    assert set(ledger.holds) == set(ledger.captured)


async def test_a_call_that_had_not_begun_costs_nothing(platform: EpisodesPlatform) -> None:
    # The money is held, and the episode ends before it hears of that.
    platform.neighbours.ledger.delay_s = 5.0
    async with platform.client() as client:
        episode = await start(client)
        await _until(lambda: bool(platform.neighbours.ledger.holds))
        await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
        ended = await finished(client, episode.id)
    ledger = platform.neighbours.ledger
    assert ended.unpriced_call_count == 0 and not platform.neighbours.orchestrator.asked
    assert ledger.released == set(ledger.holds) and not ledger.captured


async def test_money_that_is_asked_for_when_the_episode_ends_is_given_back(
    platform: EpisodesPlatform,
) -> None:
    # The ledger takes its time, and the cancel is heard meanwhile.
    outage, ledger = platform.tenants.fail(platform.tenant, LEDGER), platform.neighbours.ledger
    async with platform.client() as client:
        episode = await start(client)
        await _met(outage, 1)
        await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
        asyncio.get_running_loop().call_later(1.0, outage.end)
        ended = await finished(client, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_CANCELLED
    await _until(lambda: bool(ledger.holds))
    assert ledger.released == set(ledger.holds) and not ledger.captured


async def test_a_model_call_that_is_rejected_costs_nothing(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.too_long = "the prompt is too long"
    async with platform.client() as client:
        ended = await finished(client, (await start(client)).id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_FAILED
    ledger = platform.neighbours.ledger
    assert ended.unpriced_call_count == 0
    assert ledger.released == set(ledger.holds) and not ledger.captured


def _limit(cut: str) -> dict[str, Any]:
    return {"time_limit": duration_pb2.Duration(seconds=3)} if cut == "deadline" else {}


async def _until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():
            await asyncio.sleep(0.01)


async def _invocations(
    platform: EpisodesPlatform, episode_id: str
) -> list[trajectory_pb2.ToolInvocation]:
    async with platform.client() as client:
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode_id))
    return list(reply.trajectory.turns[0].tool_invocations)


async def _met(outage: Outage, calls_min: int) -> None:
    async with asyncio.timeout(60):
        while outage.calls < calls_min:
            await asyncio.sleep(0.01)
