from typing import Any

import grpc
import pytest

from integration.tool_registry.builders import make_llm_spec, make_model, make_price, make_spec
from integration.tool_registry.running_registry import Caller, RunningRegistry, rejected
from podium.common.v1 import money_pb2
from podium.registry.v1 import policy_pb2
from podium.registry.v1 import policy_service_pb2 as pb

Selector = policy_pb2.ToolSelector


@pytest.fixture
async def ada(registry: RunningRegistry) -> Caller:
    caller = registry.as_()
    await caller.register(make_spec())
    await caller.register(make_llm_spec(make_model("here", tags=["on-premise"])))
    return caller


@pytest.mark.parametrize(
    ("fields", "notice"),
    [
        (
            {"deny": Selector(names=["calcluator"])},
            "deny.names: there is no tool calcluator, so it denies nothing; "
            "did you mean calculator?",
        ),
        (
            {"approval": Selector(names=["calcluator"])},
            "approval.names: there is no tool calcluator, so no call waits for a person by it; "
            "did you mean calculator?",
        ),
        (
            {"allow": Selector(names=["calculator"], tags=["on-premises"])},
            "allow.tags: no tool has the tag on-premises, so it allows nothing; "
            "did you mean on-premise?",
        ),
        (
            {"deny": Selector(models=["her"])},
            "deny.models: no tool has the model her, so it denies nothing; did you mean here?",
        ),
        (
            {"deny": Selector(providers=["xyz"])},
            "deny.providers: no tool has the provider xyz, so it denies nothing",
        ),
        (
            {"required_tags": ["on-premisse"]},
            "required_tags: no tool has the tag on-premisse, so no tool passes; "
            "did you mean on-premise?",
        ),
    ],
)
async def test_a_name_that_no_tool_has_is_a_notice_with_the_nearest(
    ada: Caller, fields: dict[str, Any], notice: str
) -> None:
    assert list((await ada.create_policy(**fields)).notices) == [notice]
    tried = policy_pb2.PolicySpec(name="mine", **fields)
    explained = await ada.policies.ExplainToolset(pb.ExplainToolsetRequest(spec=tried))
    assert list(explained.notices) == [notice]


async def test_names_that_tools_have_are_no_notice(ada: Caller) -> None:
    reply = await ada.create_policy(
        deny=Selector(names=["calculator", "find_tools"], models=["here"]),
        required_tags=["on-premise"],
    )
    assert not reply.notices


async def test_a_policy_that_is_tried_is_checked_as_one_that_is_applied(ada: Caller) -> None:
    spec = policy_pb2.PolicySpec(name="mine")
    spec.preferences.tools["calcluator"] = 1
    for call in (
        ada.policies.CreatePolicy(pb.CreatePolicyRequest(spec=spec)),
        ada.policies.ExplainToolset(pb.ExplainToolsetRequest(spec=spec)),
        ada.policies.DryRunPolicy(pb.DryRunPolicyRequest(spec=spec)),
    ):
        assert "did you mean calculator?" in str((await rejected(call)).details())


async def test_a_ceiling_in_a_currency_without_prices_is_rejected(
    registry: RunningRegistry, ada: Caller
) -> None:
    registry.prices.give(make_price("tool/calculator", {"CALL": ("0.01", "1")}))
    ceiling = money_pb2.Money(currency_code="XYZ", amount="1")
    error = await rejected(ada.create_policy(price_ceiling=ceiling))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "write it in USD" in str(error.details())
    free = money_pb2.Money(currency_code="USD", amount="0")
    [notice] = (await ada.create_policy(price_ceiling=free)).notices
    assert "only tools that cost nothing" in notice


async def test_a_budget_that_is_not_there_is_rejected_where_a_policy_names_it(
    registry: RunningRegistry, ada: Caller
) -> None:
    error = await rejected(ada.create_policy(budget_ids=["everyday"]))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "there is no such budget" in str(error.details())
    registry.budgets.ids.add("everyday")
    assert (await ada.create_policy(budget_ids=["everyday"])).created


async def test_an_explanation_says_which_calls_wait_for_a_person(ada: Caller) -> None:
    await ada.create_policy("floor", approval=Selector(names=["calculator"]))
    explained = await ada.policies.ExplainToolset(pb.ExplainToolsetRequest(policy="balanced"))
    reasons = {each.name: each.reason for each in explained.decisions}
    assert "waits for a person's approval" in reasons["calculator"]
    assert "approval" not in reasons["answer"]
