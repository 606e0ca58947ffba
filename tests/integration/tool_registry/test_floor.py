from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from integration.tool_registry.builders import make_price, make_spec
from integration.tool_registry.running_registry import RunningRegistry, rejected
from podium.common.v1 import money_pb2
from podium.registry.v1 import policy_pb2
from podium.registry.v1 import policy_service_pb2 as pb

POLICIES = ["", "balanced", "accuracy-first", "loose"]
DOLLAR = money_pb2.Money(currency_code="USD", amount="1")
ADMIT = policy_pb2.UNKNOWN_PRICE_RULE_ADMIT


def named(name: str) -> policy_pb2.ToolSelector:
    return policy_pb2.ToolSelector(names=[name])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"deny": named("mail")}, "denied by name mail"),
        ({"allow": named("calculator")}, "the policy allows only others"),
        ({"required_tags": ["on-premise"]}, "it lacks the required tag on-premise"),
        ({"price_ceiling": DOLLAR}, "above the ceiling of 1 USD"),
    ],
)
async def test_what_the_floor_rejects_no_policy_brings_back(
    registry: RunningRegistry, policy: str, rule: dict[str, Any], reason: str
) -> None:
    ada = registry.as_()
    registry.prices.give(make_price("tool/mail", {"CALL": ("5", "1")}))
    await ada.register(make_spec("mail"))
    await ada.create_policy("loose", allow=named("mail"))
    assert (await ada.decided(policy)).allowed
    await ada.create_policy("floor", **rule)
    decision = await ada.decided(policy)
    assert not decision.allowed
    assert reason in decision.reason
    assert decision.reason.endswith("(the tenant's floor)")
    resolved = await ada.resolve(policy=policy)
    assert [tool.name for tool in resolved.toolset.tools] == []
    # Another tenant has no floor.
    zoe = registry.as_("zeta")
    await zoe.register(make_spec("mail"))
    assert (await zoe.decided("balanced")).allowed


@pytest.mark.parametrize("policy", POLICIES)
async def test_the_rest_of_an_episodes_terms_is_the_stricter_one(
    registry: RunningRegistry, policy: str
) -> None:
    ada = registry.as_()
    registry.budgets.ids |= {"mine", "all"}
    await ada.register(make_spec("mail", sku=""))
    await ada.create_policy(
        "loose", unknown_price=ADMIT, training_consent=True, budget_ids=["mine", "all"]
    )
    await ada.create_policy(
        "floor",
        approval=named("mail"),
        approval_timeout=Duration(seconds=60),
        budget_ids=["all"],
        unknown_price=policy_pb2.UNKNOWN_PRICE_RULE_ADMIT_AT_CEILING,
        price_ceiling=DOLLAR,
    )
    toolset = (await ada.resolve(policy=policy)).toolset
    assert toolset.policy_name == (policy or "balanced")
    assert toolset.tools[0].needs_approval
    assert (await ada.decided(policy)).needs_approval
    assert toolset.unknown_price == policy_pb2.UNKNOWN_PRICE_RULE_ADMIT_AT_CEILING
    assert toolset.price_ceiling == DOLLAR
    assert toolset.approval_timeout.seconds == 60
    assert not toolset.training_consent
    assert list(toolset.budget_ids) == (["all", "mine"] if policy == "loose" else ["all"])


async def test_a_new_version_of_the_floor_holds_at_once(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec("mail"))
    await ada.create_policy("floor", unknown_price=ADMIT, deny=named("mail"))
    assert not (await ada.decided("balanced")).allowed
    await ada.create_policy("floor", unknown_price=ADMIT)
    assert (await ada.decided("balanced")).allowed
    assert (await ada.resolve(policy="balanced")).toolset.tools


async def test_a_policy_that_is_only_tried_stands_on_the_floor_and_a_floor_on_none(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec("mail"))
    await ada.create_policy("floor", unknown_price=ADMIT, deny=named("mail"))
    for name, allowed in (("tried", False), ("floor", True)):
        spec = policy_pb2.PolicySpec(name=name, unknown_price=ADMIT)
        reply = await ada.policies.ExplainToolset(pb.ExplainToolsetRequest(spec=spec))
        assert [each.allowed for each in reply.decisions] == [allowed]


async def test_a_floor_without_presets_leaves_the_tenants_own_policies(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_spec("mail"))
    await ada.create_policy("mine", unknown_price=ADMIT)
    await ada.create_policy("floor", unknown_price=ADMIT, no_presets=True)
    for preset in ("", "balanced", "cost-first"):
        error = await rejected(ada.resolve(policy=preset))
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "name a policy of the tenant's own" in (error.details() or "")
        # In an episode that runs already, too.
        decision = await ada.decided(preset)
        assert not decision.allowed
        assert "the tenant's floor allows none" in decision.reason
    assert (await ada.resolve(policy="mine")).toolset.tools
    assert (await ada.decided("mine")).allowed


async def test_only_the_floor_rules_out_presets(registry: RunningRegistry) -> None:
    error = await rejected(registry.as_().create_policy("mine", no_presets=True))
    assert "set it in the policy named floor" in (error.details() or "")
