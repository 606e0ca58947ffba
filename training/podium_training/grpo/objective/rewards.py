"""The paper's reward: what an episode did, normalised in its group, weighted by preference.

M(tau) = [m_tool1 ... m_tooln, r_outcome, -cost, -latency]      (paper, section 3.2)
M_norm[k] = (M[k] - min M[k]) / (max M[k] - min M[k]) over the group, 0 where max = min
R(tau) = M_norm(tau) . P if r_outcome(tau) = 1, otherwise 0     (paper, appendix L)

Counts of zero take part, the final call is priced, and orchestrator tokens are cost.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Features:
    """Features of one episode."""

    tool_calls: tuple[int, ...]
    """Calls per tool, in the order of the group's tools."""
    solved: bool
    cost: float
    """Money of every call, in the group's one currency."""
    latency_s: float
    unavailable_share: float = 0.0
    """Share of the tool calls that found their tool overloaded, away or too slow."""
    malformed_share: float = 0.0
    """Share of the model's replies that could not be read as calls or an answer."""

    def vector(self) -> Vector:
        """M, of length tools + 3: more expensive and slower is less."""
        return np.array(
            [*self.tool_calls, float(self.solved), -self.cost, -self.latency_s], dtype=np.float64
        )


class Weight(StrEnum):
    """The features that preferences weigh beside the outcome."""

    COMPUTE = "compute"
    LATENCY = "latency"
    TOOLS = "tools"


@dataclass(frozen=True)
class Preferences:
    """P: weights in [0, 1]."""

    tools: tuple[float, ...]
    outcome: float
    compute: float
    latency: float

    def __post_init__(self) -> None:
        if not all(0 <= weight <= 1 for weight in self.vector()):
            raise ValueError(f"preference weights must be in [0, 1], not {self.vector().tolist()}")

    def vector(self) -> Vector:
        return np.array([*self.tools, self.outcome, self.compute, self.latency], dtype=np.float64)

    def without(self, ignored: Collection[Weight]) -> "Preferences":
        """P with 0 for these: what an ablation rewards (paper, section 3.2, term by term)."""
        return replace(
            self,
            compute=0.0 if Weight.COMPUTE in ignored else self.compute,
            latency=0.0 if Weight.LATENCY in ignored else self.latency,
            tools=(0.0,) * len(self.tools) if Weight.TOOLS in ignored else self.tools,
        )


@dataclass(frozen=True)
class RewardRules:
    """Departures from the paper's reward; at 0 each is the paper's.

    Differences of cost and latency within a group below these count in proportion: the paper's
    formula stretches any difference to a whole weight, a fraction of a second that a busy engine
    took, or three tokens more.
    """

    cost: float = 0.0
    latency_s: float = 0.0
    unavailable: float = 0.0
    """Part of the reward that an episode loses whose every call found its tool unavailable."""
    malformed: float = 0.0
    """Likewise for its replies that could not be read."""


PAPER_RULES = RewardRules()


def normalised(group: Sequence[Features], rules: RewardRules = PAPER_RULES) -> Vector:
    """M_norm of every episode of a group: (episodes, tools + 3), each element in [0, 1].

    Where a floor is above the group's spread, the best episode is at 1 and no other at 0.
    """
    raw = np.stack([features.vector() for features in group])
    low, high = raw.min(axis=0), raw.max(axis=0)
    floor = np.zeros(raw.shape[1])
    floor[-2:] = rules.cost, rules.latency_s
    low = np.minimum(low, high - floor)
    spread = np.where(high > low, high - low, 1.0)
    scaled: Vector = (raw - low) / spread
    return scaled


def components(group: Sequence[Features], rules: RewardRules = PAPER_RULES) -> Vector:
    """Returns the components of a group's rewards: M_norm where solved, zeros elsewhere.

    (episodes, tools + 3); weighted by P and added up, they are the rewards.
    """
    solved = np.array([features.solved for features in group])
    unavailable = np.array([features.unavailable_share for features in group])
    malformed = np.array([features.malformed_share for features in group])
    kept = (1 - rules.unavailable * unavailable) * (1 - rules.malformed * malformed)
    found: Vector = np.where(solved[:, None], normalised(group, rules) * kept[:, None], 0.0)
    return found


def rewards(
    group: Sequence[Features], preferences: Preferences, rules: RewardRules = PAPER_RULES
) -> Vector:
    """R of every episode of a group, in its order.

    Raises ValueError when the episodes and the preferences are not about the same tools.
    """
    lengths = {len(features.tool_calls) for features in group} | {len(preferences.tools)}
    if len(lengths) != 1:
        raise ValueError(f"episodes and preferences name {sorted(lengths)} tools; all must agree")
    scored: Vector = components(group, rules) @ preferences.vector()
    return scored
