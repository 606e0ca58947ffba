"""A replay calls no tool with effects: an earlier episode's record answers, or it diverges."""

import json
from typing import Any

import grpc
import pytest

from callers import client_channel, code_of, make_identity
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import Platform, finished, new_id, start
from integration.episodes.test_composite_tools import composite, writes
from integration.episodes.test_evaluations import create, evaluation, evaluations, item, play
from integration.episodes.test_evaluations import trials as trials_of
from podium.episodes.v1 import check_pb2, episode_pb2, trajectory_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_pb2
from podium_kit.rpc.identity import Scope

ORDER = json.dumps({"item": "tea", "count": 2})
# The same arguments in another order and spacing.
SAME_ORDER = '{ "count": 2,  "item": "tea" }'


def order(arguments: str = ORDER, index: int = 0) -> orchestrator_pb.ToolCall:
    return call("order", arguments, index)


@pytest.fixture
def shop(platform: Platform) -> Platform:
    """A tool that only reads, and one whose calls have an effect and wait for a person."""
    toolset = make_toolset("look_up", "order")
    toolset.tools[0].side_effect = tool_pb2.SIDE_EFFECT_PURE
    toolset.tools[1].side_effect = tool_pb2.SIDE_EFFECT_EFFECTFUL
    platform.neighbours.registry.toolset = toolset
    return platform


async def past(platform: Platform, *actions: orchestrator_pb.Action) -> str:
    platform.neighbours.orchestrator.decide = in_turns(*actions)
    return (await platform.run()).id


async def replayed(
    platform: Platform, replay_of: str, *actions: orchestrator_pb.Action, **spec: Any
) -> trajectory_pb2.Trajectory:
    platform.neighbours.orchestrator.decide = in_turns(*actions)
    platform.neighbours.adapters.requests.clear()
    started = await start(platform.ada, replay_of=replay_of, **spec)
    await finished(platform.ada, started.id)
    return await platform.trajectory(started.id)


async def test_a_call_with_effects_is_answered_by_the_record_and_one_that_reads_is_made(
    shop: Platform,
) -> None:
    shop.neighbours.adapters.content = lambda request: f"result {len(shop.neighbours.ledger.holds)}"
    earlier = await past(shop, calls(call("look_up"), order(index=1)), answer("Two teas"))
    recorded = (await shop.trajectory(earlier)).turns[0].tool_invocations[1]
    # A person is not asked about what is not done.
    shop.neighbours.registry.toolset.tools[1].needs_approval = True
    await shop.announce_change()
    wanted = calls(call("look_up"), order(SAME_ORDER, index=1))
    trajectory = await replayed(shop, earlier, wanted, answer("Two teas"))
    assert trajectory.replay_of == earlier
    assert trajectory.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert [each.tool_name for each in shop.neighbours.adapters.requests] == ["look_up"]
    looked, ordered = trajectory.turns[0].tool_invocations
    assert ordered.observation.content == recorded.observation.content
    assert ordered.observation.call.arguments_json == SAME_ORDER
    assert (ordered.cost.amount, looked.cost.amount != "0") == ("0", True)
    assert ordered.key not in shop.neighbours.ledger.holds
    assert ordered.latency == recorded.latency and ordered.latency_modelled


async def test_equal_calls_are_answered_in_turn_and_no_oftener_than_recorded(
    shop: Platform,
) -> None:
    numbers = iter(range(10))
    shop.neighbours.adapters.content = lambda request: f"order {next(numbers)}"
    earlier = await past(shop, calls(order()), calls(order()), answer("Done"))
    trajectory = await replayed(shop, earlier, calls(order(), order(index=1)), answer("Done"))
    seen = [each.observation.content for each in trajectory.turns[0].tool_invocations]
    assert seen == ["order 0", "order 1"]
    trajectory = await replayed(shop, earlier, *[calls(order())] * 3, answer("Done"))
    assert trajectory.stop_reason == episode_pb2.STOP_REASON_DIVERGED
    assert "only 2 times" in trajectory.failure.message
    assert not shop.neighbours.adapters.requests


async def test_a_failure_is_replayed_as_the_failure_that_it_was(shop: Platform) -> None:
    shop.neighbours.adapters.failures["order"] = "there is no tea"
    earlier = await past(shop, calls(order()), answer("No tea"))
    shop.neighbours.adapters.failures.clear()
    trajectory = await replayed(shop, earlier, calls(order()), answer("No tea"))
    [invocation] = trajectory.turns[0].tool_invocations
    assert invocation.observation.failure.message == "there is no tea"


async def test_a_call_that_was_not_recorded_ends_the_replay_without_a_verdict(
    shop: Platform,
) -> None:
    earlier = await past(shop, calls(order()), answer("Two teas"))
    check = check_pb2.Check(verifier="contains", parameters_json='{"expected": "teas"}')
    other = calls(order('{"item": "tea", "count": 3}'))
    trajectory = await replayed(shop, earlier, other, answer("Three teas"), check=check)
    assert trajectory.stop_reason == episode_pb2.STOP_REASON_DIVERGED
    assert not trajectory.outcomes and '"count": 3' in trajectory.unjudged_reason
    assert not shop.neighbours.adapters.requests
    assert not shop.neighbours.ledger.open()


async def test_the_callers_functions_and_orchestrators_are_answered_by_the_record(
    shop: Platform,
) -> None:
    client = tool_pb2.ClientTool(name="order", description="Orders.")
    toolset = make_toolset("look_up")
    toolset.tools.add(
        name="order",
        version=1,
        kind=tool_pb2.TOOL_KIND_CLIENT,
        side_effect=tool_pb2.SIDE_EFFECT_EFFECTFUL,
        parameters_json_schema='{"type": "object"}',
    )
    earlier = await past(shop, calls(order()), answer("Two teas"))
    shop.neighbours.registry.toolset = toolset
    await shop.announce_change()
    trajectory = await replayed(
        shop, earlier, calls(order()), answer("Two teas"), client_tools=[client]
    )
    assert trajectory.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert not shop.neighbours.adapters.requests


async def test_what_an_expert_wrote_runs_only_as_it_was_recorded(platform: Platform) -> None:
    tool = composite()
    tool.executor.kind = tool_pb2.TOOL_KIND_HTTP
    tool.executor.side_effect = tool_pb2.SIDE_EFFECT_EFFECTFUL
    platform.neighbours.registry.toolset.tools.append(tool)
    asked = calls(call("reason", '{"model": "expert-2"}'))
    platform.neighbours.adapters.content = writes("```\norder(2)\n```")
    earlier = await past(platform, asked, answer("Done"))
    trajectory = await replayed(platform, earlier, asked, answer("Done"))
    assert trajectory.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert [each.tool_name for each in platform.neighbours.adapters.requests] == ["reason"]
    platform.neighbours.adapters.content = writes("```\norder(3)\n```")
    trajectory = await replayed(platform, earlier, asked, answer("Done"))
    assert trajectory.stop_reason == episode_pb2.STOP_REASON_DIVERGED


async def test_only_an_ended_episode_that_the_caller_may_read_is_replayed(
    shop: Platform,
) -> None:
    earlier = await past(shop, answer("42"))
    bob = make_identity(shop.tenant, "bob", scopes=(Scope.EPISODES_RUN,))
    async with client_channel(shop.port, bob, shop.keys) as channel:
        theirs = start(EpisodeServiceStub(channel), replay_of=earlier)
        assert await code_of(theirs) is grpc.StatusCode.PERMISSION_DENIED
    unknown = start(shop.ada, replay_of=new_id())
    assert await code_of(unknown) is grpc.StatusCode.NOT_FOUND
    look = check_pb2.Check(
        verifier="state", parameters_json='{"look": {"tool": "look_up"}, "expected": "2"}'
    )
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await start(shop.ada, replay_of=earlier, check=look)
    assert "a replay has none" in (rejected.value.details() or "")


async def test_a_trial_that_diverged_is_neither_right_nor_wrong(shop: Platform) -> None:
    earlier = await past(shop, calls(order()), answer("42"))
    shop.neighbours.orchestrator.decide = in_turns(calls(order("{}")), answer("42"))
    wanted = item("one")
    wanted.replay_of = earlier
    async with evaluations(shop) as client:
        run = await create(client, evaluation(), wanted)
        [planned] = await trials_of(client, run.id, with_items=True)
        await play(shop, planned, replay_of=planned.item.replay_of)
        [trial] = await trials_of(client, run.id)
        found = await client.GetEvaluation(pb.GetEvaluationRequest(evaluation_id=run.id))
    assert trial.state == pb.TRIAL_STATE_DIVERGED and not trial.HasField("score")
    assert "so nothing answers" in trial.explanation
    [progress] = found.progress
    assert (progress.diverged_count, progress.unjudged_count) == (1, 0)
