import asyncio
from datetime import timedelta
from typing import Any

import grpc

from integration.tool_registry.builders import make_llm_spec, make_model, make_price, make_spec
from integration.tool_registry.running_registry import Caller, RunningRegistry, rejected
from podium.common.v1 import money_pb2
from podium.registry.v1 import policy_pb2
from podium.registry.v1 import policy_service_pb2 as pb
from podium.registry.v1 import tool_registry_service_pb2 as tools_pb
from podium_kit.rpc.identity import Scope
from podium_kit.wire import timestamp_to_proto


def planned(tool: str, model: str = "", version: int = 1) -> pb.PlannedCall:
    return pb.PlannedCall(tool_name=tool, tool_version=version, model_alias=model)


async def check(caller: Caller, policy: str, *calls: pb.PlannedCall) -> pb.CheckCallsResponse:
    request = pb.CheckCallsRequest(policy=policy, calls=calls)
    reply: pb.CheckCallsResponse = await caller.policies.CheckCalls(request)
    return reply


async def activate(caller: Caller, name: str, **fields: Any) -> policy_pb2.Policy:
    request = pb.ActivatePolicyRequest(name=name, **fields)
    reply: pb.ActivatePolicyResponse = await caller.policies.ActivatePolicy(request)
    return reply.policy


async def test_a_call_allowed_before_is_rejected_after_the_policy_changed(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.create_policy("mine")
    [before] = (await check(ada, "mine", planned("calculator"))).decisions
    await ada.create_policy("mine", deny=policy_pb2.ToolSelector(names=["calculator"]))
    reply = await check(ada, "mine", planned("calculator"))
    assert before.allowed and not reply.decisions[0].allowed
    assert reply.decisions[0].reason == "denied by name calculator"
    assert (reply.policy_name, reply.policy_version) == ("mine", 2)


async def test_each_model_is_decided_for_itself(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_llm_spec(make_model("here", tags=["on-premise"]), make_model("away")))
    await ada.create_policy("mine", required_tags=["on-premise"])
    calls = [planned("answer", "here"), planned("answer", "away"), planned("answer", "nobody")]
    decisions = (await check(ada, "mine", *calls)).decisions
    assert [decision.allowed for decision in decisions] == [True, False, False]
    assert "required tag on-premise" in decisions[1].reason
    assert "no model nobody" in decisions[2].reason


async def test_an_older_version_is_decided_by_its_own_content_and_price(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec(sku="tool/old", tags=["old"]))
    await ada.register(make_spec(tags=["new"]))
    registry.prices.give(make_price("tool/old", {"CALL": ("5", "1")}))
    ceiling = money_pb2.Money(currency_code="USD", amount="1")
    await ada.create_policy("mine", price_ceiling=ceiling)
    old, new = planned("calculator"), planned("calculator", version=2)
    decisions = (await check(ada, "mine", old, new)).decisions
    assert [decision.allowed for decision in decisions] == [False, True]
    assert "above the ceiling" in decisions[0].reason


async def test_a_deprecated_tool_serves_episodes_that_have_it(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.deprecate("calculator")
    decisions = (await check(ada, "", planned("calculator"), planned("nothing"))).decisions
    assert [decision.allowed for decision in decisions] == [True, False]


async def test_a_call_says_whether_a_person_must_approve_it(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec("mail"))
    await ada.create_policy("careful", approval=policy_pb2.ToolSelector(names=["mail"]))
    [decision] = (await check(ada, "careful", planned("mail"))).decisions
    assert decision.allowed and decision.needs_approval


async def test_a_scheduled_policy_starts_at_its_moment_and_not_before(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.create_policy("strict", deny=policy_pb2.ToolSelector(names=["calculator"]))
    tomorrow = timestamp_to_proto(registry.clock() + timedelta(days=1))
    assert not (await activate(ada, "strict", effective_time=tomorrow)).active
    assert (await check(ada, "", planned("calculator"))).policy_name == "balanced"
    registry.clock.advance(timedelta(days=1))
    reply = await check(ada, "", planned("calculator"))
    assert (reply.policy_name, reply.decisions[0].allowed) == ("strict", False)
    assert (await ada.resolve()).toolset.policy_name == "strict"


async def test_a_scheduled_policy_is_announced_when_it_starts(registry: RunningRegistry) -> None:
    ada, follower = registry.as_(), registry.as_("podium", Scope.LEDGER_WRITE)
    soon = timestamp_to_proto(registry.clock() + timedelta(seconds=0.5))
    await activate(ada, "cost-first", effective_time=soon)
    known = (await follower.tools.AwaitChange(tools_pb.AwaitChangeRequest())).version
    waiting = asyncio.ensure_future(
        follower.tools.AwaitChange(tools_pb.AwaitChangeRequest(version=known))
    )
    registry.clock.advance(timedelta(seconds=1))
    assert (await waiting).version > known
    assert (await check(ada, "", planned("calculator"))).policy_name == "cost-first"


async def test_the_schedule_is_kept_and_listed_newest_first(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await activate(ada, "cost-first")
    next_week = timestamp_to_proto(registry.clock() + timedelta(days=7))
    await activate(ada, "speed-first", effective_time=next_week)
    registry.clock.advance(timedelta(seconds=1))
    await activate(ada, "accuracy-first")
    listed, token = [], ""
    while True:
        request = pb.ListActivationsRequest(page_size=2, page_token=token)
        page = await ada.policies.ListActivations(request)
        listed += [activation.name for activation in page.activations]
        token = page.next_page_token
        if not token:
            break
    assert listed == ["speed-first", "accuracy-first", "cost-first"]
    assert not (await registry.as_("globex").policies.ListActivations(request)).activations


async def test_a_policy_cannot_have_started_in_the_past(registry: RunningRegistry) -> None:
    yesterday = timestamp_to_proto(registry.clock() - timedelta(days=1))
    error = await rejected(activate(registry.as_(), "cost-first", effective_time=yesterday))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "has passed" in str(error.details())
