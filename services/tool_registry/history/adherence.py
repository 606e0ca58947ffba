"""Adherence of an episode to its preference vector: appendix L of the paper. Pure.

With M = [calls per tool, outcome, cost, latency] of the episode and M_0 of a baseline on
the same task, each tool and the outcome count M[k] / max(1, M_0[k]), cost and latency
count M_0[k] / max(1, M[k]); the score is the dot product with P when the task is solved,
otherwise 0. It is not bounded above.

The paper's r_compute is negative dollars, for which these quotients mean nothing: costs
must be positive, and in a unit in which they are mostly above 1. Ours are in hundredths
of the currency (cents) and seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tool_registry.models import Preferences

MINOR_UNITS = 100


@dataclass(frozen=True)
class Behaviour:
    """The vector M: calls per tool, outcome (0 or 1), cost in hundredths, latency in seconds."""

    tool_calls: Mapping[str, float]
    outcome: float
    cost: float
    latency_s: float


def adherence_score(done: Behaviour, baseline: Behaviour, preferences: Preferences) -> float:
    if done.outcome < 1:
        return 0.0
    tools = sum(
        weight * _more_is_better(done.tool_calls.get(name, 0), baseline.tool_calls.get(name, 0))
        for name, weight in preferences.tools.items()
    )
    return (
        tools
        + preferences.outcome * _more_is_better(done.outcome, baseline.outcome)
        + preferences.compute * _less_is_better(done.cost, baseline.cost)
        + preferences.latency * _less_is_better(done.latency_s, baseline.latency_s)
    )


def mean_behaviour(several: Sequence[Behaviour]) -> Behaviour:
    """The baseline of a task that was tried more than once."""
    names = {name for one in several for name in one.tool_calls}
    count = len(several)
    return Behaviour(
        {name: sum(one.tool_calls.get(name, 0) for one in several) / count for name in names},
        sum(one.outcome for one in several) / count,
        sum(one.cost for one in several) / count,
        sum(one.latency_s for one in several) / count,
    )


def _more_is_better(done: float, baseline: float) -> float:
    return done / max(1.0, baseline)


def _less_is_better(done: float, baseline: float) -> float:
    return baseline / max(1.0, done)
