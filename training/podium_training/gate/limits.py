import math
from collections.abc import Sequence
from decimal import Decimal

from podium_training.gate.evaluation import Evaluated
from podium_training.gate.rules import GateRules


def broken_limits(episodes: Sequence[Evaluated], rules: GateRules) -> list[str]:
    checks = (too_many_unjudged, _cost, _latency, _format, _tool_errors)
    return [words for check in checks if (words := check(episodes, rules))]


def mean_cost(episodes: Sequence[Evaluated]) -> Decimal | None:
    costs = [each.cost for each in episodes if each.cost is not None]
    return sum(costs, Decimal(0)) / len(costs) if costs and len(costs) == len(episodes) else None


def latency_p95_s(episodes: Sequence[Evaluated]) -> float:
    """The least latency that 95 % of the episodes do not exceed (nearest rank)."""
    return sorted(each.latency_s for each in episodes)[math.ceil(0.95 * len(episodes)) - 1]


def format_validity(episodes: Sequence[Evaluated]) -> float:
    """Share of well-formed actions; 0 when there was none."""
    actions = sum(each.actions for each in episodes)
    return 1 - sum(each.malformed_actions for each in episodes) / actions if actions else 0.0


def tool_error_rate(episodes: Sequence[Evaluated]) -> float:
    """Share of failed tool calls; 0 when there was none."""
    calls = sum(each.tool_calls for each in episodes)
    return sum(each.failed_tool_calls for each in episodes) / calls if calls else 0.0


def too_many_unjudged(episodes: Sequence[Evaluated], rules: GateRules) -> str | None:
    """The share and its limit, in words; None within it."""
    share = sum(each.score is None for each in episodes) / len(episodes)
    if share <= rules.unjudged_max:
        return None
    return f"{share:.1%} of episodes unjudged, at most {rules.unjudged_max:.1%}"


def _cost(episodes: Sequence[Evaluated], rules: GateRules) -> str | None:
    if rules.cost_max is None:
        return None
    mean = mean_cost(episodes)
    if mean is None:
        return "the cost is unknown: a call has no price"
    if mean <= rules.cost_max:
        return None
    return f"mean cost {mean:f}, at most {rules.cost_max:f}"


def _latency(episodes: Sequence[Evaluated], rules: GateRules) -> str | None:
    found = latency_p95_s(episodes)
    if rules.latency_p95_max_s is None or found <= rules.latency_p95_max_s:
        return None
    return f"latency p95 {found:.3g} s, at most {rules.latency_p95_max_s:g} s"


def _format(episodes: Sequence[Evaluated], rules: GateRules) -> str | None:
    found = format_validity(episodes)
    if found >= rules.format_validity_min:
        return None
    return f"{found:.1%} of actions well-formed, at least {rules.format_validity_min:.1%}"


def _tool_errors(episodes: Sequence[Evaluated], rules: GateRules) -> str | None:
    found = tool_error_rate(episodes)
    if found <= rules.tool_error_rate_max:
        return None
    return f"{found:.1%} of tool calls failed, at most {rules.tool_error_rate_max:.1%}"
