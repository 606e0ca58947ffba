import asyncio
from typing import Any

import grpc
import pytest

from integration.tool_registry.builders import make_spec, seconds
from integration.tool_registry.running_registry import Caller, RunningRegistry, rejected
from podium.common.v1 import money_pb2
from podium.registry.v1 import policy_pb2
from podium.registry.v1 import policy_service_pb2 as pb

PRESETS = ["accuracy-first", "balanced", "cost-first", "speed-first"]


async def listed(caller: Caller, size: int = 0) -> list[policy_pb2.Policy]:
    policies, token = [], ""
    while True:
        request = pb.ListPoliciesRequest(page_size=size, page_token=token)
        page = await caller.policies.ListPolicies(request)
        policies += page.policies
        token = page.next_page_token
        if not token:
            return policies


async def activate(caller: Caller, name: str, version: int = 0) -> policy_pb2.Policy:
    request = pb.ActivatePolicyRequest(name=name, version=version)
    reply: pb.ActivatePolicyResponse = await caller.policies.ActivatePolicy(request)
    return reply.policy


async def test_presets_exist_for_an_unknown_tenant(registry: RunningRegistry) -> None:
    policies = await listed(registry.as_("newcomer"))
    assert [policy.spec.name for policy in policies] == PRESETS
    assert [policy.spec.name for policy in policies if policy.active] == ["balanced"]
    assert all(policy.spec.preferences.outcome == 1 for policy in policies)


async def test_a_preset_cannot_be_redefined(registry: RunningRegistry) -> None:
    error = await rejected(registry.as_().create_policy("balanced"))
    assert error.code() == grpc.StatusCode.ALREADY_EXISTS
    assert "balanced is a preset" in str(error.details())


async def test_versions_follow_the_content(registry: RunningRegistry) -> None:
    ada = registry.as_()
    replies = [await ada.create_policy(instruction=text) for text in ("a", "a", "b", "a")]
    assert [reply.policy.version for reply in replies] == [1, 1, 2, 1]
    assert [reply.created for reply in replies] == [True, False, True, False]


async def test_concurrent_policies_get_versions_without_gaps(registry: RunningRegistry) -> None:
    ada = registry.as_()
    replies = await asyncio.gather(*(ada.create_policy(instruction=str(n % 5)) for n in range(15)))
    assert {reply.policy.version for reply in replies} == {1, 2, 3, 4, 5}


async def test_validate_only_stores_nothing(registry: RunningRegistry) -> None:
    ada = registry.as_()
    assert (await ada.create_policy(validate_only=True)).policy.version == 1
    assert [policy.spec.name for policy in await listed(ada)] == PRESETS


async def test_the_active_policy_is_what_episodes_without_a_name_run_under(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.create_policy(instruction="first")
    await ada.create_policy(instruction="second")
    assert (await ada.resolve()).toolset.policy_name == "balanced"
    assert (await activate(ada, "mine", 1)).active
    toolset = (await ada.resolve()).toolset
    assert (toolset.policy_name, toolset.policy_version) == ("mine", 1)
    assert toolset.instruction == "first"
    await activate(ada, "cost-first")
    assert (await ada.resolve()).toolset.policy_name == "cost-first"
    assert (await registry.as_("globex").resolve()).toolset.policy_name == "balanced"


async def test_a_tenants_policies_are_its_own(registry: RunningRegistry) -> None:
    await registry.as_("acme").create_policy("secret")
    globex = registry.as_("globex")
    get = globex.policies.GetPolicy(pb.GetPolicyRequest(name="secret"))
    for call in (get, activate(globex, "secret"), globex.resolve("secret")):
        assert (await rejected(call)).code() == grpc.StatusCode.NOT_FOUND
    assert [policy.spec.name for policy in await listed(globex)] == PRESETS


async def test_pages_list_presets_first_and_each_policy_once(registry: RunningRegistry) -> None:
    ada = registry.as_()
    for name in ("zebra", "ant", "moose"):
        await ada.create_policy(name)
    names = [policy.spec.name for policy in await listed(ada, size=2)]
    assert names == [*PRESETS, "ant", "moose", "zebra"]


async def test_approval_marks_the_tools_it_selects(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec("pay", tags=["money"]))
    await ada.register(make_spec("read"))
    await ada.create_policy(approval=policy_pb2.ToolSelector(tags=["money"]))
    tools = (await ada.resolve("mine")).toolset.tools
    assert {tool.name: tool.needs_approval for tool in tools} == {"pay": True, "read": False}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "No Spaces"}, "name is 'No Spaces'"),
        ({"preferences": policy_pb2.PreferenceVector(outcome=1.5)}, "outcome is 1.5"),
        ({"preferences": policy_pb2.PreferenceVector(latency=float("nan"))}, "latency is nan"),
        ({"preferences": policy_pb2.PreferenceVector(tools={"x": -0.1})}, "is -0.1; give 0 to 1"),
        ({"allow": policy_pb2.ToolSelector()}, "allow is set and names nothing"),
        ({"unknown_price": policy_pb2.UNKNOWN_PRICE_RULE_ADMIT_AT_CEILING}, "no ceiling"),
        ({"latency_ceiling": seconds(-1)}, "latency_ceiling"),
        (
            {"price_ceiling": money_pb2.Money(currency_code="USD", amount="-1")},
            "price_ceiling",
        ),
        (
            {"price_ceiling": money_pb2.Money(currency_code="USD", amount="free")},
            "give a decimal",
        ),
    ],
)
async def test_a_policy_that_cannot_be_kept_is_rejected_with_its_cause(
    registry: RunningRegistry, fields: dict[str, Any], words: str
) -> None:
    error = await rejected(registry.as_().create_policy(**fields))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert words in str(error.details())
