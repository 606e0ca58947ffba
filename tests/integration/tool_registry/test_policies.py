import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from integration.tool_registry.builders import (
    make_llm_spec,
    make_model,
    make_price,
    make_spec,
    seconds,
)
from integration.tool_registry.running_registry import Caller, RunningRegistry, rejected
from podium.common.v1 import money_pb2
from podium.registry.v1 import policy_pb2
from podium.registry.v1 import policy_service_pb2 as pb
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb

REJECT = policy_pb2.UNKNOWN_PRICE_RULE_REJECT
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


ADMIT = policy_pb2.UNKNOWN_PRICE_RULE_ADMIT
COST_FIRST = policy_pb2.POLICY_PRESET_COST_FIRST
Weights = policy_pb2.PreferenceVector


async def weights_of(
    registry: RunningRegistry, preset: policy_pb2.PolicyPreset.ValueType, given: Weights
) -> tuple[float, float, float]:
    reply = await registry.as_().create_policy(preset=preset, preferences=given)
    found = reply.policy.spec.preferences
    return found.outcome, found.compute, found.latency


@pytest.mark.parametrize(
    ("preset", "given", "wanted"),
    [
        (COST_FIRST, Weights(latency=0.9), (1.0, 0.8, 0.9)),
        (COST_FIRST, Weights(compute=0), (1.0, 0.0, 0.2)),
        (policy_pb2.POLICY_PRESET_UNSPECIFIED, Weights(outcome=0.5), (0.5, 0.0, 0.0)),
        (policy_pb2.POLICY_PRESET_UNSPECIFIED, Weights(), (1.0, 0.4, 0.4)),
    ],
    ids=["override", "zero overrides", "no preset", "balanced without any"],
)
async def test_weights_as_written_then_the_presets(
    registry: RunningRegistry,
    preset: policy_pb2.PolicyPreset.ValueType,
    given: Weights,
    wanted: tuple[float, float, float],
) -> None:
    assert await weights_of(registry, preset, given) == pytest.approx(wanted)


async def test_weights_that_prefer_nothing_are_rejected(registry: RunningRegistry) -> None:
    given = Weights(outcome=0, compute=0, latency=0)
    error = await rejected(registry.as_().create_policy(preferences=given))
    assert "every weight is 0" in str(error.details())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("calculater", "did you mean calculator?"),
        ("answer/strongest", "did you mean answer/strong?"),
        ("weather", "see `podium tools list`"),
    ],
)
async def test_a_weight_of_no_tool_is_rejected_with_the_fix(
    registry: RunningRegistry, name: str, hint: str
) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.register(make_llm_spec(make_model("strong"), make_model("quick")))
    error = await rejected(ada.create_policy(preferences=Weights(outcome=1, tools={name: 0.5})))
    assert f"preferences.tools weighs {name}, and there is no such tool; {hint}" in str(
        error.details()
    )


async def test_weights_stand_in_the_terms_of_tools_and_models(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.register(make_llm_spec(make_model("strong"), make_model("quick")))
    await ada.create_policy(
        unknown_price=ADMIT,
        preferences=Weights(
            outcome=1, tools={"calculator": 0, "answer": 0.5, "answer/quick": 0.25}
        ),
    )
    toolset = (await ada.resolve("mine")).toolset
    assert {tool.name: tool.terms for tool in toolset.tools} == {
        "answer": (
            "strong: price unknown, latency unknown;"
            " quick: price unknown, latency unknown, weight 0.25; weight 0.5"
        ),
        "calculator": "price unknown, latency unknown, weight 0",
    }


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
    assert (await ada.create_policy(budget_ids=["everyday"], unknown_price=REJECT)).created


async def test_a_model_without_a_price_is_rejected_under_a_budget_and_fixed_by_a_price(
    registry: RunningRegistry, ada: Caller
) -> None:
    registry.budgets.ids.add("everyday")
    await ada.register(make_llm_spec(make_model("a")))
    error = await rejected(ada.create_policy(budget_ids=["everyday"]))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    field = "connection.llm.models[0].sku of answer (a): llm/a has no price"
    assert field in str(error.details()) and "podium prices import" in str(error.details())
    assert (
        await ada.create_policy("strict", budget_ids=["everyday"], unknown_price=REJECT)
    ).created
    denied = policy_pb2.ToolSelector(models=["a"])
    assert (await ada.create_policy("denies", budget_ids=["everyday"], deny=denied)).created
    registry.prices.give(make_price("llm/a", {"INPUT_FRESH": ("1", "1000000")}))
    assert (await ada.create_policy(budget_ids=["everyday"])).created
    # From then on, a tool whose model has no price is rejected as well.
    unset = make_llm_spec(make_model("b", sku=""), name="other")
    error = await rejected(ada.register(unset))
    assert "models[0].sku of other (b): it is unset, and the policy" in str(error.details())
    reply = await ada.tools.RegisterTools(registry_pb.RegisterToolsRequest(specs=[unset]))
    assert "under the budget everyday" in reply.tools[0].problem


async def test_an_explanation_says_which_calls_wait_for_a_person(ada: Caller) -> None:
    await ada.create_policy("floor", approval=Selector(names=["calculator"]))
    explained = await ada.policies.ExplainToolset(pb.ExplainToolsetRequest(policy="balanced"))
    reasons = {each.name: each.reason for each in explained.decisions}
    asked = "each call waits for a person's approval by name calculator (the tenant's floor)"
    assert reasons["calculator"].endswith(asked)
    assert "approval" not in reasons["answer"]
    waiting = {each.name for each in explained.decisions if each.needs_approval}
    assert waiting == {"calculator"}


POLICIES = ["", "balanced", "accuracy-first", "loose"]
DOLLAR = money_pb2.Money(currency_code="USD", amount="1")


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
        "loose",
        unknown_price=ADMIT,
        training_consent=True,
        budget_ids=["mine", "all"],
        parallel_calls=8,
    )
    await ada.create_policy(
        "floor",
        approval=named("mail"),
        approval_timeout=Duration(seconds=60),
        budget_ids=["all"],
        unknown_price=policy_pb2.UNKNOWN_PRICE_RULE_ADMIT_AT_CEILING,
        price_ceiling=DOLLAR,
        parallel_calls=2,
    )
    toolset = (await ada.resolve(policy=policy)).toolset
    assert toolset.policy_name == (policy or "balanced")
    assert toolset.tools[0].needs_approval
    assert (await ada.decided(policy)).needs_approval
    assert toolset.unknown_price == policy_pb2.UNKNOWN_PRICE_RULE_ADMIT_AT_CEILING
    assert toolset.price_ceiling == DOLLAR
    assert toolset.approval_timeout.seconds == 60
    assert toolset.parallel_calls == 2
    assert not toolset.training_consent
    assert list(toolset.budget_ids) == (["all", "mine"] if policy == "loose" else ["all"])


async def test_a_policy_limits_the_calls_of_a_turn_and_what_binds_its_caller_only_tightens(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.create_policy("several", parallel_calls=4)
    await ada.create_policy("eight", parallel_calls=8)
    await ada.create_policy("one", parallel_calls=1)

    async def limit(policy: str) -> int:
        return (await ada.resolve(policy=policy)).toolset.parallel_calls

    assert [await limit(policy) for policy in ("several", "balanced")] == [4, 0]
    await ada.bind("eight", "user:ada")
    assert [await limit(policy) for policy in ("several", "balanced")] == [4, 8]
    await ada.bind("one", "user:ada")
    assert [await limit(policy) for policy in ("several", "balanced")] == [1, 1]


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


async def test_a_policy_explores_where_it_and_all_that_binds_consent_to_training(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    learning = policy_pb2.LearningSettings(explore=0.25)
    await ada.create_policy("curious", training_consent=True, learning=learning)
    assert (await ada.resolve("curious")).toolset.explore == 0.25
    assert (await ada.resolve("balanced")).toolset.explore == 0
    await ada.create_policy("floor")
    assert (await ada.resolve("curious")).toolset.explore == 0, "the floor gives no consent"
    budget = money_pb2.Money(amount="5", currency_code="USD")
    replays = policy_pb2.LearningSettings(replay_budget=budget)
    for settings in (learning, replays):
        error = await rejected(ada.create_policy("secretive", learning=settings))
        assert "without training_consent; set it to true" in str(error.details())
    replays.replay_budget.amount = "0"
    error = await rejected(ada.create_policy("cheap", training_consent=True, learning=replays))
    assert "learning.replay_budget must be above 0" in str(error.details())
