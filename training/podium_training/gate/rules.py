import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import StrEnum
from statistics import fmean

from pydantic import BaseModel, ConfigDict, Field

from podium_training.gate.evaluation import Evaluated, Pair


class Objective(StrEnum):
    SCORE = "score"
    COST = "cost"
    LATENCY = "latency"
    FORMAT = "format"
    TOOL_ERRORS = "tool_errors"


class GateRules(BaseModel):
    """Rules: no worse than the promoted policy, better in one objective, within hard limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    delta: float = Field(0.02, ge=0, description="score a candidate may at most lose")
    objective: Objective = Field(Objective.SCORE, description="what it must be better at")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="of every bound, in the whole")
    looks: int = Field(1, ge=1, description="how often a growing evaluation is looked at, at most")
    pairs_min: int = Field(30, ge=1, description="tasks with pairs before a decision")
    unjudged_max: float = Field(0.05, ge=0, le=1, description="share nobody could judge")
    cost_max: Decimal | None = Field(None, ge=0, description="mean cost of a task")
    latency_p95_max_s: float | None = Field(None, gt=0, description="seconds")
    format_validity_min: float = Field(0.95, ge=0, le=1, description="share of actions")
    tool_error_rate_max: float = Field(0.2, ge=0, le=1, description="share of tool calls")

    @property
    def look_confidence(self) -> float:
        """Confidence of one look, so that all together err no oftener than allowed.

        Bonferroni: simple and on the safe side, at whatever moments the looks happen.
        """
        return 1 - (1 - self.confidence) / self.looks


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


def gains(pairs: Sequence[Pair], objective: Objective) -> list[float] | None:
    """One number per task, the mean of its seeds: those are alike, so they are no more evidence
    than the tasks are. None when any is unknown.

    An unjudged answer is neither right nor wrong, so its pair says nothing about the score.
    """
    measure = MEASURES[objective]
    if objective is Objective.SCORE:
        pairs = judged(pairs)
    found: dict[str, list[float]] = {}
    for candidate, promoted in pairs:
        ours, theirs = measure(candidate), measure(promoted)
        if ours is None or theirs is None:
            return None
        found.setdefault(candidate.task_id, []).append(ours - theirs)
    return [fmean(of_task) for of_task in found.values()]


def judged(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs whose answers were both judged; how many were not is a hard limit."""
    return [pair for pair in pairs if all(each.score is not None for each in pair)]


def _saved(episode: Evaluated) -> float | None:
    return None if episode.cost is None else -float(episode.cost)


def _well_formed(episode: Evaluated) -> float:
    return 1 - episode.malformed_actions / episode.actions if episode.actions else 0.0


def _tools_well(episode: Evaluated) -> float:
    return 1 - episode.failed_tool_calls / episode.tool_calls if episode.tool_calls else 1.0


MEASURES: dict[Objective, Callable[[Evaluated], float | None]] = {
    Objective.SCORE: lambda episode: episode.score,
    Objective.COST: _saved,
    Objective.LATENCY: lambda episode: -episode.latency_s,
    Objective.FORMAT: _well_formed,
    Objective.TOOL_ERRORS: _tools_well,
}
