"""Whatever becomes of a call: no hold outlives its episode, and an unknown cost is no zero."""

import asyncio
import json

import pytest

from episodes.turns.platform_faults import FAULTS_MAX
from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from integration.episodes.tenants import Outage
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import check_pb2, episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.rpc.errors import DomainError, FailedPrecondition, InternalError, Unavailable

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADAPTERS = "ToolAdapterService/Invoke"
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
    ledger = platform.neighbours.ledger
    assert set(ledger.holds) == set(ledger.captured) | ledger.released


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
