"""Decisions on calls that are about to be made. Pure, and made in microseconds.

An episode is pinned to versions of tools, not to its policy: what a tenant forbids now is
rejected now, also in an episode that began before.
"""

from dataclasses import dataclass

from tool_registry.models import ModelChoice, PolicySpec, ToolSpec, ToolVersion
from tool_registry.policies.compiled import admission, needs_approval
from tool_registry.toolsets.resolver import Known, rejects


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


def decide_call(
    policy: PolicySpec, tool: ToolVersion | None, call: PlannedCall, known: Known
) -> CallDecision:
    if tool is None:
        return CallDecision(False, f"tool {call.tool_name} v{call.tool_version} is gone", False)
    choice = _choice(tool.spec, call.model_alias)
    if choice is None:
        named = f"no model {call.model_alias}" if call.model_alias else "models, and none is named"
        return CallDecision(False, f"{call.tool_name} has {named}", False)
    if reason := rejects(policy, tool.spec, choice, known):
        return CallDecision(False, reason, False)
    approval = needs_approval(policy, tool.spec, choice)
    return CallDecision(True, admission(policy, tool.spec, choice), approval)


def _choice(spec: ToolSpec, alias: str) -> ModelChoice | None:
    if not spec.models:
        return spec.choices[0]
    return next((choice for choice in spec.choices if choice.alias == alias), None)
