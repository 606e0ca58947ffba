"""What a policy lets in, whatever the tool."""

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from money import Money
from tool_registry.compiled_policy import Circumstances, allowed_models, decide
from tool_registry.models import PolicySpec, Selector, ToolKind, ToolSpec, UnknownPriceRule
from unit.tool_registry.builders import make_model, make_policy, make_tool

NAMES = st.sampled_from(["calculator", "search", "code", "ask"])
TAGS = st.frozensets(st.sampled_from(["on-premise", "web", "beta"]))
SELECTORS = st.builds(
    Selector,
    names=st.frozensets(NAMES),
    kinds=st.frozensets(st.sampled_from(ToolKind)),
    tags=TAGS,
)
COSTS = st.decimals("0", "10", places=6).map(lambda amount: Money(amount, "USD"))
POLICIES = st.builds(
    make_policy,
    allow=SELECTORS,
    deny=SELECTORS,
    required_tags=TAGS,
    price_ceiling=st.none() | COSTS,
    latency_ceiling_s=st.none() | st.floats(0, 10),
    unknown_price=st.sampled_from(UnknownPriceRule),
)
TOOLS = st.builds(make_tool, name=NAMES, kind=st.sampled_from(ToolKind), tags=TAGS)
MOMENTS = st.builds(Circumstances, st.none() | COSTS, st.none() | st.floats(0, 10))


@given(POLICIES, TOOLS, MOMENTS)
def test_what_is_denied_is_never_let_in(
    policy: PolicySpec, tool: ToolSpec, now: Circumstances
) -> None:
    denying = replace(policy, deny=replace(policy.deny, names=policy.deny.names | {tool.name}))
    assert not decide(denying, tool, now).allowed


@given(POLICIES, TOOLS, MOMENTS)
def test_what_is_let_in_keeps_every_rule(
    policy: PolicySpec, tool: ToolSpec, now: Circumstances
) -> None:
    if not decide(policy, tool, now).allowed:
        return
    assert policy.required_tags <= tool.tags
    assert now.worst_case or policy.unknown_price is not UnknownPriceRule.REFUSE
    if policy.price_ceiling and now.worst_case:
        assert now.worst_case <= policy.price_ceiling
    if policy.latency_ceiling_s is not None and now.latency_p95_s is not None:
        assert now.latency_p95_s <= policy.latency_ceiling_s


@given(POLICIES, TOOLS, COSTS, COSTS)
def test_a_higher_ceiling_never_shuts_a_tool_out(
    policy: PolicySpec, tool: ToolSpec, cost: Money, more: Money
) -> None:
    now = Circumstances(cost, None)
    low = replace(policy, price_ceiling=more)
    high = replace(policy, price_ceiling=more + Money(Decimal(1), "USD"))
    assert decide(high, tool, now).allowed >= decide(low, tool, now).allowed


@given(POLICIES, TOOLS, MOMENTS)
def test_every_decision_says_why(policy: PolicySpec, tool: ToolSpec, now: Circumstances) -> None:
    decision = decide(policy, tool, now)
    assert decision.name == tool.name
    assert decision.reason


def test_denied_models_leave_the_others_of_an_llm_tool() -> None:
    models = (make_model("small"), make_model("large"))
    tool = make_tool("ask", kind=ToolKind.LLM, models=models)
    policy = make_policy(deny=Selector(models=frozenset({"large"})))
    assert [choice.alias for choice in allowed_models(policy, tool)] == ["small"]
    assert decide(policy, tool, Circumstances(None, None)).allowed


def test_a_tool_without_a_model_left_is_out() -> None:
    tool = make_tool("ask", kind=ToolKind.LLM, models=(make_model("large"),))
    policy = make_policy(deny=Selector(models=frozenset({"lab/large"})))
    decision = decide(policy, tool, Circumstances(None, None))
    assert (decision.allowed, decision.reason) == (False, "the policy leaves none of its models")
