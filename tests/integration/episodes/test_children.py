import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import duration_pb2

from callers import make_identity
from embedded_servers import Database
from episodes.keys import child_episode_id
from integration.episodes.neighbours import (
    answer,
    call,
    calls,
    make_toolset,
    orchestrator_tool,
)
from integration.episodes.platform_under_test import (
    Platform,
    events,
    finished,
    new_id,
    run_platform,
    start,
)
from integration.misbehaviour.faults import DEGREES, Fault
from podium.common.v1 import failure_pb2, money_pb2
from podium.episodes.v1 import check_pb2, episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.ledger.v1 import budget_service_pb2 as budget_pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import toolset_pb2
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.temporal import EmbeddedTemporal

CHILD_TASK = "find the number"


def researcher_call(index: int = 0, task: str = CHILD_TASK) -> orchestrator_pb.ToolCall:
    return call("researcher", json.dumps({"task": task}), index)


def delegates(request: orchestrator_pb.NextActionRequest) -> orchestrator_pb.Action:
    if request.task == CHILD_TASK:
        return answer("child's 42") if request.turns else calls(call("calculator"))
    if not request.turns:
        return calls(researcher_call())
    seen = request.turns[-1].observations[0]
    return answer(seen.content or seen.failure.message)


def with_researcher(platform: Platform, **podium: Any) -> None:
    toolset = make_toolset("calculator", "search")
    toolset.tools.append(orchestrator_tool(**podium))
    platform.neighbours.registry.toolset = toolset
    platform.neighbours.orchestrator.decide = delegates


def child_id(parent: str, turn: int = 1, index: int = 0) -> str:
    return child_episode_id(parent, f"{parent}/{turn}/tool/{index}")


async def test_child_answers_for_the_callers_identity_under_the_callers_policy(
    platform: Platform,
) -> None:
    with_researcher(platform)
    labels = {"team": "research"}
    parent = await platform.run(
        policy="careful", tool_names=["researcher"], labels=labels, parallel_calls=1
    )
    assert parent.answer == "child's 42"
    child = await platform.episode(child_id(parent.id))
    assert (child.answer, child.spec.task) == ("child's 42", CHILD_TASK)
    assert (child.spec.policy, list(child.spec.tool_names)) == ("careful", ["researcher"])
    assert (dict(child.spec.labels), child.spec.parallel_calls) == (labels, 1)
    assert (child.spec.parent.episode_id, child.spec.parent.depth) == (parent.id, 1)
    users = {hold.subject.user for hold in platform.neighbours.ledger.holds.values()}
    assert users == {make_identity().subject}


async def test_tool_names_the_childs_policy_and_tools(platform: Platform) -> None:
    with_researcher(platform, policy="frugal", tool_names=["calculator"])
    parent = await platform.run(policy="careful")
    asked = [(one.policy, list(one.tool_names)) for one in platform.neighbours.registry.asked]
    assert asked == [("careful", []), ("frugal", ["calculator"])]
    child = await platform.trajectory(child_id(parent.id))
    assert (child.parent.episode_id, child.parent.turn) == (parent.id, 1)
    checks = {one.calls[0].tool_name: one.policy for one in platform.neighbours.policies.asked}
    assert checks == {"researcher": "careful", "calculator": "frugal"}


async def test_costs_of_parent_and_child_add_up_to_the_ledgers(platform: Platform) -> None:
    with_researcher(platform)
    parent = await platform.run()
    above = await platform.trajectory(parent.id)
    below = await platform.trajectory(child_id(parent.id))
    ledger = platform.neighbours.ledger
    assert Decimal(above.cost.amount) == ledger.total(parent.id) > 0
    assert Decimal(below.cost.amount) == ledger.total(below.episode_id) > 0
    everything = sum(ledger.captured.values())
    assert Decimal(above.cost.amount) + Decimal(below.cost.amount) == everything
    [invocation] = above.turns[0].tool_invocations
    assert invocation.child.episode_id == below.episode_id
    assert invocation.child.cost == below.cost == above.children_cost == parent.children_cost
    assert Decimal(invocation.cost.amount) == 0
    assert Decimal(above.features.cost.amount) == everything
    assert [quantity.amount for quantity in invocation.child.usage]


async def test_the_watch_names_who_answered(platform: Platform) -> None:
    with_researcher(platform)
    seen = await events(platform.ada, (await start(platform.ada)).id)
    [returned] = [event.tool_returned for event in seen if event.HasField("tool_returned")]
    assert returned.child.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert (returned.child.turn_count, returned.latency.ToNanoseconds() > 0) == (2, True)


async def test_a_tool_that_calls_itself_ends_at_the_depth_it_names(platform: Platform) -> None:
    with_researcher(platform, max_depth=3)

    def ever_deeper(request: orchestrator_pb.NextActionRequest) -> orchestrator_pb.Action:
        if not request.turns:
            return calls(researcher_call(task="go deeper"))
        seen = request.turns[-1].observations[0]
        return answer(seen.content or f"rejected: {seen.failure.message}")

    platform.neighbours.orchestrator.decide = ever_deeper
    parent = await platform.run()
    assert "orchestrators may be 3 deep" in parent.answer
    child = await platform.trajectory(child_id(parent.id))
    grandchild = await platform.trajectory(child_id(child.episode_id))
    assert (child.parent.depth, grandchild.parent.depth) == (1, 2)
    failure = grandchild.turns[0].tool_invocations[0].observation.failure
    assert failure.kind == failure_pb2.FAILURE_KIND_LIMIT_EXCEEDED
    # What is below the child is in its reference, so the top knows the whole.
    whole = sum(platform.neighbours.ledger.captured.values())
    assert Decimal((await platform.trajectory(parent.id)).features.cost.amount) == whole


async def test_an_episode_of_another_tenant_with_the_childs_id_does_not_answer_for_it(
    platform: Platform,
) -> None:
    with_researcher(platform)
    parent = new_id()
    spec = episode_pb2.EpisodeSpec(task="what is 6 x 7?")
    async with platform.client("umbrella") as umbrella, platform.client() as client:
        squatted = pb.StartEpisodeRequest(episode_id=child_id(parent), spec=spec)
        await umbrella.StartEpisode(squatted)
        theirs = await finished(umbrella, child_id(parent))
        await client.StartEpisode(pb.StartEpisodeRequest(episode_id=parent, spec=spec))
        ended = await finished(client, parent)
    assert theirs.answer and ended.answer != theirs.answer
    [invocation] = (await platform.trajectory(parent)).turns[0].tool_invocations
    assert not invocation.HasField("child") and not invocation.observation.content
    assert invocation.observation.failure.kind == failure_pb2.FAILURE_KIND_TOOL_ERROR


async def test_child_spends_from_the_parents_budget(platform: Platform) -> None:
    with_researcher(platform)
    budget = money_pb2.Money(currency_code="USD", amount="0.01")
    parent = await platform.run(budget=budget)
    [made] = platform.neighbours.ledger.budgets
    assert (made.id, made.scope) == (f"episode/{parent.id}", budget_pb.BUDGET_SCOPE_NAMED)
    holds = platform.neighbours.ledger.holds.values()
    assert {hold.subject.episode_id for hold in holds} == {parent.id, child_id(parent.id)}
    assert all(list(hold.budget_ids) == [made.id] for hold in holds)


@pytest.mark.parametrize("beside", [(), ("search",)], ids=["alone", "beside-a-call"])
async def test_a_waiting_parent_holds_nothing_that_its_child_could_spend(
    platform: Platform, beside: tuple[str, ...]
) -> None:
    others = [call(tool, index=index) for index, tool in enumerate(beside, 1)]

    def decide(request: orchestrator_pb.NextActionRequest) -> orchestrator_pb.Action:
        if request.task == CHILD_TASK or request.turns:
            return delegates(request)
        return calls(researcher_call(), *others)

    with_researcher(platform)
    platform.neighbours.orchestrator.decide = decide
    platform.neighbours.ledger.open_max = 1
    assert (await platform.run()).answer == "child's 42"


async def test_cancel_of_the_parent_ends_children_first_and_releases_their_holds(
    platform: Platform,
) -> None:
    with_researcher(platform)
    platform.neighbours.adapters.delay_s = 30
    async with platform.client() as client, asyncio.timeout(60):
        parent = (await start(client)).id
        while not platform.neighbours.adapters.requests:
            await asyncio.sleep(0.05)
        await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=parent))
        above = await finished(client, parent)
        below = await finished(client, child_id(parent))
    assert above.stop_reason == below.stop_reason == episode_pb2.STOP_REASON_CANCELLED
    assert below.end_time.ToNanoseconds() < above.end_time.ToNanoseconds()
    ledger = platform.neighbours.ledger
    assert set(ledger.holds) == set(ledger.captured) | ledger.released
    await assert_refers_to_its_child(platform, parent, failure_pb2.FAILURE_KIND_CANCELLED)


async def test_deadline_of_the_parent_bounds_the_child(platform: Platform) -> None:
    with_researcher(platform)
    platform.neighbours.adapters.delay_s = 30
    parent = await platform.run(time_limit=duration_pb2.Duration(seconds=2))
    assert parent.stop_reason == episode_pb2.STOP_REASON_DEADLINE
    child = await platform.episode(child_id(parent.id))
    assert child.spec.time_limit.ToNanoseconds() <= 2_000_000_000
    assert child.stop_reason in (
        episode_pb2.STOP_REASON_DEADLINE,
        episode_pb2.STOP_REASON_CANCELLED,
    )
    await assert_refers_to_its_child(
        platform,
        parent.id,
        failure_pb2.FAILURE_KIND_TIMEOUT,
        failure_pb2.FAILURE_KIND_CANCELLED,
    )


async def assert_refers_to_its_child(
    platform: Platform, parent: str, *failures: failure_pb2.FailureKind.ValueType
) -> None:
    above = await platform.trajectory(parent)
    [invocation] = above.turns[0].tool_invocations
    assert invocation.child.episode_id == child_id(parent)
    assert invocation.observation.failure.kind in failures
    ledger = platform.neighbours.ledger
    assert Decimal(above.children_cost.amount) == ledger.total(child_id(parent)) > 0
    assert Decimal(above.features.cost.amount) == sum(ledger.captured.values())


async def test_a_child_counts_against_the_tenants_limit_but_is_never_rejected(
    platform: Platform,
) -> None:
    with_researcher(platform)
    platform.neighbours.adapters.delay_s = 600
    spec = episode_pb2.EpisodeSpec(task="what is 6 x 7?")
    async with platform.client() as client, asyncio.timeout(60):
        parent = new_id()
        alone = pb.StartEpisodeRequest(episode_id=parent, spec=spec, running_limit=1)
        await client.StartEpisode(alone)
        # Its child runs, although the tenant already runs all it may.
        while not platform.neighbours.adapters.requests:
            await asyncio.sleep(0.05)
        second = pb.StartEpisodeRequest(episode_id=new_id(), spec=spec, running_limit=2)
        with pytest.raises(grpc.aio.AioRpcError, match="2 episodes at once"):
            await client.StartEpisode(second)
        await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=parent))
        await finished(client, parent)
        platform.neighbours.adapters.delay_s = 0
        await client.StartEpisode(second)
        assert (await finished(client, second.episode_id)).answer == "child's 42"


async def test_a_childs_answer_is_not_verified(platform: Platform) -> None:
    with_researcher(platform)
    check = check_pb2.Check(verifier="exact", parameters_json='{"expected": "child\'s 42"}')
    parent = await platform.run(check=check)
    above = await platform.trajectory(parent.id)
    below = await platform.trajectory(child_id(parent.id))
    assert [outcome.score for outcome in above.outcomes] == [1.0]
    assert not below.outcomes
    assert not below.unjudged_reason


async def test_children_run_beside_each_other_and_the_turns_other_calls(platform: Platform) -> None:
    with_researcher(platform)
    together = asyncio.Barrier(3)

    def decide(request: orchestrator_pb.NextActionRequest) -> orchestrator_pb.Action:
        if request.task == CHILD_TASK:
            return answer("42") if request.turns else calls(call("calculator"))
        asked = [researcher_call(0), call("search", index=1), researcher_call(2)]
        return answer("done") if request.turns else calls(*asked)

    platform.neighbours.orchestrator.decide = decide
    platform.neighbours.adapters.barrier = together
    parent = await platform.run()
    assert (parent.answer, parent.tool_call_count) == ("done", 3)
    seen = platform.neighbours.orchestrator.requests[-1].turns[0].observations
    assert [one.call.index for one in seen] == [0, 1, 2]
    assert [one.content for one in seen] == ["42", "search says {}", "42"]


async def test_only_the_platform_names_a_parent(platform: Platform) -> None:
    for parent in (episode_pb2.ParentCall(), episode_pb2.ParentCall(episode_id=new_id())):
        with pytest.raises(grpc.aio.AioRpcError, match="leave it out"):
            await start(platform.ada, parent=parent)


async def test_an_orchestrator_cannot_judge(platform: Platform) -> None:
    with_researcher(platform)
    parameters = json.dumps({"code": "def check(answer): return True", "tool": "researcher"})
    check = check_pb2.Check(verifier="python", parameters_json=parameters)
    with pytest.raises(grpc.aio.AioRpcError, match="of kind podium"):
        await start(platform.ada, check=check)


async def test_twelve_parents_on_four_slots_all_get_their_childs_answer(
    database: Database,
    temporal: EmbeddedTemporal,
    kafka: EmbeddedKafka,
    tmp_path: Path,
) -> None:
    url, settings = await database("episodes"), {"max_concurrent_turns": "4"}
    async with run_platform(url, temporal, kafka, tmp_path, settings) as platform:
        with_researcher(platform)
        async with platform.client() as client, asyncio.timeout(120):
            parents = [await start(client) for _ in range(12)]
            ended = await asyncio.gather(*(finished(client, parent.id) for parent in parents))
    assert {episode.answer for episode in ended} == {"child's 42"}
    ledger = platform.neighbours.ledger
    assert len(ledger.captured) == 12 * (2 + 3)


@pytest.mark.chaos
async def test_killed_worker_neither_starts_nor_charges_a_child_twice(
    own_platform: Platform,
) -> None:
    with_researcher(own_platform)
    neighbours = own_platform.neighbours
    neighbours.orchestrator.delay_s = neighbours.adapters.delay_s = 0.3
    async with own_platform.client() as client, asyncio.timeout(120):
        parents = [(await start(client)).id for _ in range(6)]
        # Once while children are started, once while they run.
        for reached in (1, 6):
            while len(neighbours.adapters.invoked) < reached:
                await asyncio.sleep(0.01)
            await own_platform.worker.kill()
            own_platform.worker.start()
        ended = await asyncio.gather(*(finished(client, parent) for parent in parents))
        listed = await client.ListEpisodes(pb.ListEpisodesRequest())
    assert {episode.answer for episode in ended} == {"child's 42"}
    children = {child_id(parent) for parent in parents}
    assert {one.id for one in listed.episodes} == children | set(parents)
    ledger = neighbours.ledger
    assert {key.split("/")[0] for key in ledger.captured} == children | set(parents)
    assert len(ledger.captured) == 6 * (2 + 3)
    assert set(ledger.holds) == set(ledger.captured)


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


async def test_a_child_that_gives_no_answer_is_a_typed_failure(platform: Platform) -> None:
    for case in (*FAULTS.values(), REJECTING_MODEL):
        invocation = await _seen(platform, case)
        _assert_failed(invocation, case.kind)
        # What it took before it failed is in the ledger under its own keys.
        child = invocation.child
        total = platform.neighbours.ledger.total(child.episode_id)
        assert Decimal(child.cost.amount or 0) == total


async def test_a_call_that_no_child_can_answer_is_a_typed_failure(platform: Platform) -> None:
    for case in REJECTED:
        invocation = await _seen(platform, case)
        _assert_failed(invocation, case.kind)
        assert not invocation.HasField("child")


async def test_a_cancelled_child_is_a_failure_its_caller_sees(platform: Platform) -> None:
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
    [invocation] = await platform.invocations(parent)
    assert invocation.observation.failure.kind == failure_pb2.FAILURE_KIND_CANCELLED
    assert invocation.child.episode_id == child


async def test_a_child_with_an_exhausted_budget_reports_it_to_its_caller(
    platform: Platform,
) -> None:
    _prepare(platform, Misbehaviour("BUDGET_EXHAUSTED"))
    # The caller's first decision is paid for, and nothing after it.
    platform.neighbours.ledger.reject_after = 1
    async with platform.client() as client, asyncio.timeout(30):
        ended = await finished(client, (await start(client)).id)
    [invocation] = await platform.invocations(ended.id)
    assert invocation.observation.failure.kind == failure_pb2.FAILURE_KIND_BUDGET_EXHAUSTED
    assert "budget b is used up" in invocation.observation.failure.message


async def _seen(platform: Platform, case: Misbehaviour) -> trajectory_pb2.ToolInvocation:
    _prepare(platform, case)
    await platform.announce_change()
    async with platform.client() as client, asyncio.timeout(30):
        ended = await finished(client, (await start(client)).id)
    assert (ended.stop_reason, ended.answer) == (episode_pb2.STOP_REASON_ANSWERED, "continued")
    [invocation] = await platform.invocations(ended.id)
    return invocation


def _assert_failed(invocation: trajectory_pb2.ToolInvocation, kind: str) -> None:
    failure = invocation.observation.failure
    assert failure_pb2.FailureKind.Name(failure.kind) == f"FAILURE_KIND_{kind}", failure
    assert failure.message


def _prepare(platform: Platform, case: Misbehaviour) -> None:
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
