import asyncio
import json
from decimal import Decimal
from typing import Any

import grpc
import pytest
from google.protobuf import duration_pb2

from episodes.execution.call_tools import FAULTS_MAX
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset, tokens
from integration.episodes.platform_under_test import (
    Platform,
    events,
    finished,
    start,
    until,
)
from podium.common.v1 import failure_pb2, money_pb2, usage_pb2
from podium.episodes.v1 import check_pb2, episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.metering.usage_reports import openai_usage
from podium_kit.rpc.errors import DomainError, FailedPrecondition, InternalError, Unavailable
from podium_kit.wire import usage_to_proto

ADAPTERS, LEDGER = "ToolAdapterService/Invoke", "CostLedgerService/Apply"
AWAY = Unavailable("connection refused", retry_after_s=0.01)
FAULT = InternalError(retry_after_s=0.01)
REJECTED = FailedPrecondition("the adapters do not serve tools of this kind yet")


@pytest.fixture(autouse=True)
def one_call(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))


async def test_a_call_that_may_have_been_made_has_an_unknown_cost_and_no_open_hold(
    platform: Platform,
) -> None:
    # The adapters meet a fault of their own at every attempt, made or not.
    outage = platform.tenants.fail(platform.tenant, ADAPTERS, error=FAULT)
    ended = await platform.run()
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert outage.calls == FAULTS_MAX
    [invocation] = await platform.invocations(ended.id)
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
    platform: Platform, error: DomainError, unpriced: int
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer("42"))
    platform.tenants.fail(platform.tenant, ADAPTERS, error=error)
    look = json.dumps({"look": {"tool": "search", "arguments": {}}, "expected": 1})
    check = check_pb2.Check(verifier="state", parameters_json=look)
    ended = await platform.run(check=check)
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert ended.unpriced_call_count == unpriced
    ledger = platform.neighbours.ledger
    assert len(ledger.unpriced) == unpriced
    assert set(ledger.holds) == set(ledger.captured) | ledger.released


async def test_a_call_that_is_denied_when_it_is_tried_again_leaves_no_open_hold(
    platform: Platform,
) -> None:
    outage = platform.tenants.fail(platform.tenant, ADAPTERS, error=AWAY)
    episode = await start(platform.ada)
    await until(lambda: outage.calls >= 2)
    platform.neighbours.policies.rejected = {"calculator": "not today"}
    ended = await finished(platform.ada, episode.id)
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
    platform: Platform, cut: str, kind: failure_pb2.FailureKind.ValueType
) -> None:
    platform.neighbours.adapters.delay_s = 60
    episode = await start(platform.ada, **_limit(cut))
    await until(lambda: bool(platform.neighbours.adapters.invoked))
    if cut == "cancel":
        await platform.ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
    ended = await finished(platform.ada, episode.id)
    [invocation] = await platform.invocations(ended.id)
    assert invocation.observation.failure.kind == kind
    assert "cut off" in invocation.usage.unusable_reason and not invocation.HasField("cost")
    assert ended.unpriced_call_count == 1
    ledger = platform.neighbours.ledger
    assert ledger.unpriced == {invocation.key: invocation.usage.unusable_reason}
    assert set(ledger.holds) == set(ledger.captured)


@pytest.mark.parametrize("cut", ["cancel", "deadline"])
async def test_a_model_call_that_the_episodes_end_cuts_off_has_an_unknown_cost(
    platform: Platform, cut: str
) -> None:
    platform.neighbours.orchestrator.delay_s = 60
    episode = await start(platform.ada, **_limit(cut))
    await until(platform.neighbours.orchestrator.was_asked.is_set)
    if cut == "cancel":
        await platform.ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
    seen = await events(platform.ada, episode.id)
    trajectory = await platform.trajectory(episode.id)
    _, decided, last = seen
    assert "cut off" in decided.action_decided.action.malformed.message
    assert last.finished.episode.unpriced_call_count == 1
    [turn] = trajectory.turns
    call, ledger = turn.model_call, platform.neighbours.ledger
    assert call.failure.message and not call.HasField("response") and not call.HasField("cost")
    assert ledger.unpriced == {call.key: call.failure.message}
    assert set(ledger.holds) == set(ledger.captured)


async def test_a_call_that_had_not_begun_costs_nothing(platform: Platform) -> None:
    # The money is held, and the episode ends before it hears of that.
    platform.neighbours.ledger.delay_s = 5.0
    episode = await start(platform.ada)
    await until(lambda: bool(platform.neighbours.ledger.holds))
    await platform.ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
    ended = await finished(platform.ada, episode.id)
    ledger = platform.neighbours.ledger
    assert ended.unpriced_call_count == 0 and not platform.neighbours.orchestrator.asked
    assert ledger.released == set(ledger.holds) and not ledger.captured


async def test_money_that_is_asked_for_when_the_episode_ends_is_given_back(
    platform: Platform,
) -> None:
    # The ledger takes its time, and the cancel is heard meanwhile.
    outage, ledger = platform.tenants.fail(platform.tenant, LEDGER), platform.neighbours.ledger
    episode = await start(platform.ada)
    await until(lambda: outage.calls >= 1)
    await platform.ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
    asyncio.get_running_loop().call_later(1.0, outage.end)
    ended = await finished(platform.ada, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_CANCELLED
    await until(lambda: bool(ledger.holds))
    assert ledger.released == set(ledger.holds) and not ledger.captured


async def test_a_model_call_that_is_rejected_costs_nothing(platform: Platform) -> None:
    platform.neighbours.orchestrator.too_long = "the prompt is too long"
    ended = await platform.run()
    assert ended.stop_reason == episode_pb2.STOP_REASON_FAILED
    ledger = platform.neighbours.ledger
    assert ended.unpriced_call_count == 0
    assert ledger.released == set(ledger.holds) and not ledger.captured


def _limit(cut: str) -> dict[str, Any]:
    return {"time_limit": duration_pb2.Duration(seconds=3)} if cut == "deadline" else {}


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
    platform: Platform, usage: usage_pb2.Usage
) -> None:
    platform.neighbours.orchestrator.usage = usage
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    episode = await platform.run()
    assert (episode.stop_reason, episode.answer) == (episode_pb2.STOP_REASON_ANSWERED, "42")
    assert episode.unpriced_call_count == 2
    reasons = platform.neighbours.ledger.unpriced
    assert set(reasons) == {f"{episode.id}/{turn}/model/0" for turn in (1, 2)}
    assert all(10 < len(reason) <= 400 for reason in reasons.values())


async def test_an_episode_with_unusable_usage_can_be_cancelled(platform: Platform) -> None:
    platform.neighbours.orchestrator.usage = of_input("1" + "0" * 17)
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")))
    platform.neighbours.adapters.delay_s = 60
    episode = await start(platform.ada)
    while not platform.neighbours.adapters.in_flight:
        await asyncio.sleep(0.01)
    await platform.ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
    ended = await finished(platform.ada, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_CANCELLED
    # With the tool's call, which was cut off.
    assert ended.unpriced_call_count == 2


FACTORS = {"tool/calculator": "2.5", "orchestrator/scripted": "0.1", "tool/unused": "9"}


async def test_features_count_by_the_schedule_and_the_bill_by_the_prices(
    platform: Platform,
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


async def test_the_registry_gets_the_schedule(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer("42"))
    await trajectory(platform, FACTORS)
    [asked] = platform.neighbours.registry.asked
    assert dict(asked.price_factors) == FACTORS


async def test_without_a_schedule_features_count_what_was_charged(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    found = await trajectory(platform, {})
    assert found.features.cost == found.cost


async def test_a_schedule_that_makes_no_sense_is_rejected(platform: Platform) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=r"tool/calculator.* is .*-1"):
        await start(platform.ada, price_factors={"tool/calculator": "-1"})


async def trajectory(platform: Platform, factors: dict[str, str]) -> trajectory_pb2.Trajectory:
    episode = await platform.run(price_factors=factors)
    request = pb.GetTrajectoryRequest(episode_id=episode.id)
    return (await platform.ada.GetTrajectory(request)).trajectory


LABELS = {"team": "red", "agent": "bot"}


def expert_toolset() -> toolset_pb2.Toolset:
    toolset = make_toolset("answer", "calculator", "retired")
    for tool, skus in zip(
        toolset.tools, ({"big": "m/big", "small": "m/small"}, {}, {}), strict=True
    ):
        tool.model_skus.update(skus)
    expert, _, other = toolset.tools
    expert.kind, expert.max_output_tokens = tool_pb2.TOOL_KIND_LLM, 1000
    expert.capabilities.append("answering")
    other.capabilities.append("answering")
    return toolset


async def test_models_and_llm_tools_write_no_more_than_is_granted(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = expert_toolset()
    neighbours.ledger.output_tokens_max = 100
    ask = calls(call("answer", '{"model": "big"}'), call("calculator", index=1))
    neighbours.orchestrator.decide = in_turns(ask, answer("42"))
    episode = await platform.run(labels=LABELS)
    trajectory = await platform.trajectory(episode.id)
    assert [request.sampling.max_tokens for request in neighbours.orchestrator.requests] == [
        100
    ] * 2
    asked = {
        request.tool_name: request.max_output_tokens for request in neighbours.adapters.requests
    }
    assert asked == {"answer": 100, "calculator": 0}
    first = trajectory.turns[0]
    granted = [each.granted_output_tokens for each in first.tool_invocations]
    assert (first.model_call.granted_output_tokens, granted) == (100, [100, 0])


@pytest.mark.parametrize(
    "arguments",
    ['{"q": "x"}', '{"model": "dear"}', '{"model": null}', '{"model": ["big"]}', '{"model": ""}'],
)
async def test_a_call_that_names_no_model_of_several_is_an_error_that_the_model_reads(
    platform: Platform, arguments: str
) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = expert_toolset()
    neighbours.orchestrator.decide = in_turns(
        calls(call("answer", arguments)), calls(call("answer", '{"model": "small"}')), answer("x")
    )
    episode = await platform.run()
    trajectory = await platform.trajectory(episode.id)
    [unnamed] = trajectory.turns[0].tool_invocations
    assert unnamed.observation.failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
    assert '"model" must be one of big, small' in unnamed.observation.failure.message
    # What is asked is what was priced and held.
    [request] = neighbours.adapters.requests
    [hold] = [hold for hold in neighbours.ledger.holds.values() if hold.subject.tool == "answer"]
    assert (request.model_alias, hold.subject.model, hold.sku) == ("small", "small", "m/small")


async def test_a_reserve_says_for_whom_it_is_and_what_may_be_called_instead(
    platform: Platform,
) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = expert_toolset()
    neighbours.orchestrator.decide = in_turns(
        calls(call("answer", '{"model": "big"}')), answer("x")
    )
    episode = await platform.run(labels=LABELS)
    trajectory = await platform.trajectory(episode.id)
    assert trajectory.turns[0].model_call.granted_output_tokens == 0
    reserve = neighbours.ledger.holds[f"{episode.id}/1/tool/0"]
    assert (reserve.subject.team, reserve.subject.agent) == ("red", "bot")
    assert (reserve.sku, reserve.min_output_tokens) == ("m/big", 64)
    assert [(each.tool, each.model, each.sku) for each in reserve.alternatives] == [
        ("answer", "small", "m/small"),
        ("retired", "", "tool/retired"),
    ]
    same = ledger_pb.ReserveRequest(worst_case=reserve.alternatives[0].worst_case)
    assert same.worst_case == reserve.worst_case


async def test_models_that_the_policy_allows_now_may_answer_and_the_one_that_does_is_charged(
    platform: Platform,
) -> None:
    neighbours = platform.neighbours
    toolset = expert_toolset()
    models = ["tiny", "big", "small"]
    toolset.tools[0].model_aliases.extend(models)
    toolset.tools[0].model_skus["tiny"] = "m/tiny"
    neighbours.registry.toolset = toolset
    neighbours.policies.rejected_models = {"small"}
    neighbours.orchestrator.decide = in_turns(
        calls(call("answer", '{"model": "big"}'), call("calculator", index=1)), answer("x")
    )
    episode = await platform.run()
    trajectory = await platform.trajectory(episode.id)
    key = f"{episode.id}/1/tool/0"
    held = neighbours.ledger.holds[key].fallbacks
    assert [(each.model, each.sku) for each in held] == [("tiny", "m/tiny"), ("small", "m/small")]
    asked = {each.key: list(each.fallback_models) for each in neighbours.adapters.requests}
    assert (asked[key], asked[f"{episode.id}/1/tool/1"]) == (["tiny"], [])
    first, other = trajectory.turns[0].tool_invocations
    assert (first.model, first.answered_by_model, first.sku) == ("big", "tiny", "m/tiny")
    assert not other.answered_by_model
    charged = neighbours.ledger.answered_by
    assert {name: each.sku for name, each in charged.items()} == {key: "m/tiny"}
