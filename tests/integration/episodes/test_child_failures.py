import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

import grpc

from integration.episodes.neighbours import answer, call, calls, make_toolset, orchestrator_tool
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from integration.misbehaviour.faults import DEGREES, Fault
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import toolset_pb2

TASK = "find the number"
Decide = Callable[[orchestrator_pb.NextActionRequest], orchestrator_pb.Action]


@dataclass(frozen=True)
class Misbehaviour:
    kind: str
    tool: toolset_pb2.ResolvedTool = field(default_factory=orchestrator_tool)
    child: Decide = lambda request: answer("42")
    arguments: str = json.dumps({"task": TASK})
    adapters_delay_s: float = 0.0
    # Of the orchestrator, at the child's task.
    error: tuple[grpc.StatusCode, str] | None = None


def promising(max_output_bytes: int = 0, schema: str = "") -> toolset_pb2.ResolvedTool:
    tool = orchestrator_tool()
    tool.max_output_bytes, tool.result_json_schema = max_output_bytes, schema
    return tool


FAULTS = {
    Fault.NOT_JSON: Misbehaviour(
        "MALFORMED_OUTPUT", promising(schema=DEGREES), lambda _: answer("warm")
    ),
    Fault.WRONG_SCHEMA: Misbehaviour(
        "MALFORMED_OUTPUT", promising(schema=DEGREES), lambda _: answer("{}")
    ),
    Fault.HUNDRED_MEGABYTES: Misbehaviour(
        "OUTPUT_TOO_LARGE", promising(100), lambda _: answer("x" * 101)
    ),
    # Faults that may pass are tried again for as long as the child may run.
    Fault.RESET: Misbehaviour(
        "TIMEOUT",
        orchestrator_tool(time_limit_s=1),
        error=(grpc.StatusCode.UNAVAILABLE, "Connection reset by peer"),
    ),
    Fault.HANG: Misbehaviour(
        "TIMEOUT",
        orchestrator_tool(time_limit_s=1),
        lambda _: calls(call("calculator")),
        adapters_delay_s=30,
    ),
}
CANNOT = {
    Fault.BINARY: "an answer is a string of a Protobuf message, which holds text alone",
    Fault.HALF: "an answer is stored with the child's end, or there is none",
    Fault.PACKED: "nor is it packed",
}
REJECTED = (
    Misbehaviour("INVALID_ARGUMENTS", arguments="{}"),
    Misbehaviour("INVALID_ARGUMENTS", arguments='{"task": 5}'),
    Misbehaviour("INVALID_ARGUMENTS", arguments='{"task": "  "}'),
    Misbehaviour("INVALID_ARGUMENTS", arguments="no JSON"),
    Misbehaviour("INVALID_ARGUMENTS", arguments=json.dumps({"task": "x" * 300_000})),
    Misbehaviour("TOOL_ERROR", orchestrator_tool(policy="gone")),
)
# What trying again cannot fix.
REJECTING_MODEL = Misbehaviour("TOOL_ERROR", error=(grpc.StatusCode.INVALID_ARGUMENT, "too long"))


def test_all_faults_are_there() -> None:
    assert FAULTS.keys() | CANNOT.keys() == set(Fault)


async def test_a_child_that_gives_no_answer_is_a_typed_failure(platform: EpisodesPlatform) -> None:
    for case in (*FAULTS.values(), REJECTING_MODEL):
        invocation = await _seen(platform, case)
        _assert_failed(invocation, case.kind)
        # What it took before it failed is in the ledger under its own keys.
        child = invocation.child
        total = platform.neighbours.ledger.total(child.episode_id)
        assert Decimal(child.cost.amount or 0) == total


async def test_a_call_that_no_child_can_answer_is_a_typed_failure(
    platform: EpisodesPlatform,
) -> None:
    for case in REJECTED:
        invocation = await _seen(platform, case)
        _assert_failed(invocation, case.kind)
        assert not invocation.HasField("child")


async def test_a_cancelled_child_is_a_failure_its_caller_sees(
    platform: EpisodesPlatform,
) -> None:
    _prepare(platform, Misbehaviour("CANCELLED", child=lambda _: calls(call("calculator"))))
    platform.neighbours.adapters.delay_s = 30
    async with platform.client() as client, asyncio.timeout(30):
        parent = (await start(client)).id
        while not platform.neighbours.adapters.requests:
            await asyncio.sleep(0.05)
        child = platform.neighbours.adapters.requests[0].episode_id
        await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=child))
        ended = await finished(client, parent)
    assert (ended.stop_reason, ended.answer) == (episode_pb2.STOP_REASON_ANSWERED, "continued")
    [invocation] = await _invocations(platform, parent)
    assert invocation.observation.failure.kind == failure_pb2.FAILURE_KIND_CANCELLED
    assert invocation.child.episode_id == child


async def test_a_child_with_an_exhausted_budget_reports_it_to_its_caller(
    platform: EpisodesPlatform,
) -> None:
    _prepare(platform, Misbehaviour("BUDGET_EXHAUSTED"))
    # The caller's first decision is paid for, and nothing after it.
    platform.neighbours.ledger.reject_after = 1
    async with platform.client() as client, asyncio.timeout(30):
        ended = await finished(client, (await start(client)).id)
    [invocation] = await _invocations(platform, ended.id)
    assert invocation.observation.failure.kind == failure_pb2.FAILURE_KIND_BUDGET_EXHAUSTED
    assert "budget b is used up" in invocation.observation.failure.message


async def _seen(platform: EpisodesPlatform, case: Misbehaviour) -> trajectory_pb2.ToolInvocation:
    _prepare(platform, case)
    async with platform.client() as client, asyncio.timeout(30):
        ended = await finished(client, (await start(client)).id)
    assert (ended.stop_reason, ended.answer) == (episode_pb2.STOP_REASON_ANSWERED, "continued")
    [invocation] = await _invocations(platform, ended.id)
    return invocation


def _assert_failed(invocation: trajectory_pb2.ToolInvocation, kind: str) -> None:
    failure = invocation.observation.failure
    assert failure_pb2.FailureKind.Name(failure.kind) == f"FAILURE_KIND_{kind}", failure
    assert failure.message


def _prepare(platform: EpisodesPlatform, case: Misbehaviour) -> None:
    toolset = make_toolset("calculator")
    toolset.tools.append(case.tool)
    platform.neighbours.registry.toolset = toolset
    platform.neighbours.adapters.delay_s = case.adapters_delay_s
    platform.neighbours.orchestrator.error = case.error
    platform.neighbours.orchestrator.error_task = TASK

    def decide(request: orchestrator_pb.NextActionRequest) -> orchestrator_pb.Action:
        if request.task == TASK:
            return case.child(request)
        return answer("continued") if request.turns else calls(call("researcher", case.arguments))

    platform.neighbours.orchestrator.decide = decide


async def _invocations(
    platform: EpisodesPlatform, episode_id: str
) -> list[trajectory_pb2.ToolInvocation]:
    async with platform.client() as client:
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode_id))
    return list(reply.trajectory.turns[0].tool_invocations)
