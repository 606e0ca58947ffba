"""Resolution of one tool for an episode from a policy, prices and measurements. Pure.

Tools are resolved one by one, so that a change touches only the tools it concerns.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from podium_kit.money import Money
from tool_registry.models import (
    Facts,
    ModelChoice,
    PolicyGuardrail,
    PolicySpec,
    Price,
    ResolvedTool,
    ToolAccess,
    Toolset,
    ToolSpec,
    ToolVersion,
)
from tool_registry.policies.compiled import (
    Circumstances,
    admission,
    call_guardrails,
    needs_approval,
    rejection,
)
from tool_registry.tools.catalogue import Tools
from tool_registry.toolsets.estimates import estimates_of
from tool_registry.toolsets.prices import worst_case_of
from tool_registry.toolsets.terms import terms_of, unavailable_text
from tool_registry.toolsets.views import (
    FactsByModel,
    PricesBySku,
    describe_tool,
    facts_of,
    parameters_with_models,
)


@dataclass(frozen=True)
class Known:
    tools: Tools
    prices: PricesBySku
    facts: FactsByModel
    llm_input_tokens_max: int


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedEntry:
    """A tool's decision, what it was made from and, when the tool is in, its view."""

    sources: tuple[ToolVersion | Price | Facts | None, ...]
    decision: ToolAccess
    tool: ResolvedTool | None


def sources_of(tool: ToolVersion, known: Known) -> tuple[ToolVersion | Price | Facts | None, ...]:
    """Everything an entry depends on; the same objects mean the same entry."""
    choices = tool.spec.choices
    executor = known.tools.newest_of(tool.spec.executor)
    return (
        tool,
        *(known.prices.get(choice.sku) for choice in choices),
        *(facts_of(tool.spec, choice, known.facts) for choice in choices),
        executor,
        *(sources_of(executor, known) if executor else ()),
    )


def resolve_tool(policy: PolicySpec, tool: ToolVersion, known: Known) -> ResolvedEntry:
    rejections = [
        (choice, rejects(policy, tool.spec, choice, known)) for choice in tool.spec.choices
    ]
    choices = [choice for choice, reason in rejections if not reason]
    view = _view(tool, choices, policy, known) if choices else None
    decision = _decision(policy, tool.spec, rejections)
    if view is not None:
        decision = replace(decision, needs_approval=view.needs_approval)
    return ResolvedEntry(sources_of(tool, known), decision, view)


def without_unavailable(toolset: Toolset, unavailable: Collection[str], known: Known) -> Toolset:
    """The toolset without the models that cannot answer now, where another one of their tool can.

    `unavailable` names the tools that have such models.
    """
    changed = {}
    for name in unavailable:
        tool, decision = toolset.by_name.get(name), toolset.decision(name)
        if tool is None or decision is None:
            continue
        spec = tool.version.spec
        causes = [unavailable_text(facts_of(spec, each, known.facts)) for each in tool.models]
        pairs = list(zip(tool.models, causes, strict=True))
        if choices := [choice for choice, cause in pairs if not cause]:
            view = _view(tool.version, choices, toolset.policy.spec, known)
            reasons = "; ".join(f"{choice.alias}: {cause}" for choice, cause in pairs if cause)
            changed[name] = (
                view,
                replace(
                    decision,
                    reason=f"{decision.reason}; without {reasons}",
                    needs_approval=view.needs_approval,
                ),
            )
    if not changed:
        return toolset
    return replace(
        toolset,
        tools=tuple(changed.get(tool.version.spec.name, (tool,))[0] for tool in toolset.tools),
        decisions=tuple(
            changed[each.name][1] if each.name in changed else each for each in toolset.decisions
        ),
    )


def rejects(policy: PolicySpec, spec: ToolSpec, choice: ModelChoice, known: Known) -> str:
    """The rule that keeps a choice out now, in words; empty when it is in."""
    facts = facts_of(spec, choice, known.facts)
    now = Circumstances(
        # What an orchestrator calls is decided and priced when it calls it.
        price_known=choice.sku in known.prices or spec.kind.starts_episode,
        worst_case=_worst_case(spec, choice, known) if policy.has_price_ceiling else None,
        latency_p95_s=None if facts is None else facts.latency_p95_s,
    )
    return rejection(policy, spec, choice, now) or _executor_rejection(policy, spec, known)


def _executor_rejection(policy: PolicySpec, spec: ToolSpec, known: Known) -> str:
    """The rule that keeps out what runs the texts of a composite tool; empty when it is in."""
    if not spec.executor:
        return ""
    if (executor := known.tools.newest_of(spec.executor)) is None:
        return f"its executor {spec.executor} is no tool any more"
    [choice] = executor.spec.choices
    reason = rejects(policy, executor.spec, choice, known)
    return f"its executor {spec.executor}: {reason}" if reason else ""


def _waits(policy: PolicySpec, spec: ToolSpec, choice: ModelChoice, known: Known) -> bool:
    """Returns whether a person approves each call, of the tool itself or of its executor."""
    executor = known.tools.newest_of(spec.executor)
    if executor is not None and needs_approval(policy, executor.spec, executor.spec.choices[0]):
        return True
    return needs_approval(policy, spec, choice)


Rejections = Sequence[tuple[ModelChoice, str]]


def _worst_case(spec: ToolSpec, choice: ModelChoice, known: Known) -> Money | None:
    price = known.prices.get(choice.sku)
    if price is None:
        return None
    own = worst_case_of(price, spec, known.llm_input_tokens_max)
    if (executor := known.tools.newest_of(spec.executor)) is None:
        return own
    run = _worst_case(executor.spec, executor.spec.choices[0], known)
    if own is None or run is None or own.currency_code != run.currency_code:
        return None
    return own + run


def _decision(policy: PolicySpec, spec: ToolSpec, rejections: Rejections) -> ToolAccess:
    out = [f"{choice.alias}: {reason}" if choice.alias else reason for choice, reason in rejections]
    reasons = "; ".join(text for text, (_, reason) in zip(out, rejections, strict=True) if reason)
    admitted = next((choice for choice, reason in rejections if not reason), None)
    if admitted is None:
        return ToolAccess(spec.name, False, reasons)
    without = f"; without {reasons}" if reasons else ""
    return ToolAccess(spec.name, True, admission(policy, spec, admitted) + without)


def _view(
    tool: ToolVersion, choices: Sequence[ModelChoice], policy: PolicySpec, known: Known
) -> ResolvedTool:
    spec, weights, prices = tool.spec, policy.preferences.tools, known.prices
    runs = known.tools.newest_of(spec.executor)
    executor = _view(runs, runs.spec.choices, policy, known) if runs else None
    costs = [_worst_case(spec, choice, known) for choice in choices]
    return ResolvedTool(
        version=tool,
        description=describe_tool(spec, choices),
        terms=terms_of(spec, choices, prices, known.facts, weights, executor=executor),
        estimates=estimates_of(spec, choices, prices, known.facts, weights, executor=executor),
        parameters_schema=parameters_with_models(spec, choices),
        models=tuple(choice for choice in choices if choice.alias),
        weight=weights.get(spec.name, 0.0),
        needs_approval=any(_waits(policy, spec, choice, known) for choice in choices),
        price_per_call=_most_expensive(costs),
        executor=executor,
    )


def _most_expensive(costs: Sequence[Money | None]) -> Money | None:
    """The most a call can cost whichever model is chosen; None when one is not known."""
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs) or len({cost.currency_code for cost in known}) != 1:
        return None
    return max(known, key=lambda cost: cost.amount)


@dataclass(frozen=True)
class PlannedCall:
    tool_name: str
    tool_version: int
    model_alias: str


@dataclass(frozen=True)
class CallDecision:
    allowed: bool
    reason: str
    needs_approval: bool
    guardrails: tuple[PolicyGuardrail, ...] = ()
    cache: bytes | None = None


def decide_call(
    policy: PolicySpec, tool: ToolVersion | None, call: PlannedCall, known: Known
) -> CallDecision:
    """An episode is pinned to versions of tools, not to its policy: what a tenant forbids now is
    rejected now, also in an episode that began before. A tool that is gone is rejected.
    """
    if tool is None:
        return CallDecision(False, f"tool {call.tool_name} v{call.tool_version} is gone", False)
    choice = _choice(tool.spec, call.model_alias)
    if choice is None:
        named = f"no model {call.model_alias}" if call.model_alias else "models, and none is named"
        return CallDecision(False, f"{call.tool_name} has {named}", False)
    if reason := rejects(policy, tool.spec, choice, known):
        return CallDecision(False, reason, False)
    approval = _waits(policy, tool.spec, choice, known)
    guardrails = call_guardrails(policy, tool.spec, choice)
    reason = admission(policy, tool.spec, choice)
    return CallDecision(True, reason, approval, guardrails, policy.cache)


def _choice(spec: ToolSpec, alias: str) -> ModelChoice | None:
    if not spec.models:
        return spec.choices[0]
    return next((choice for choice in spec.choices if choice.alias == alias), None)
