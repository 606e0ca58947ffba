from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.orchestrators.journal import Results
from podium_training.gate import Evaluated
from podium_training.gate.bootstrap import Interval, paired_interval
from podium_training.grpo.objective.rewards import Features, rewards
from podium_training.grpo.objective.rewards import Preferences as RewardWeights
from tool_registry.history.adherence import MINOR_UNITS, Behaviour, adherence_score
from tool_registry.models import Preferences

Measure = Callable[[Evaluated], float]

# Each bound holds with this confidence, so both together with 95 %.
ONE_SIDED = 0.975


@dataclass(frozen=True)
class Line:
    arm: str
    policy: str
    outcome: Interval
    cost: Interval
    """US dollars an episode."""
    latency_s: Interval
    adherence: Interval
    """Appendix L of the paper, against the baseline's episode on the same task."""
    reward: Interval
    """The paper's, with the arms' episodes on a task as its group."""

    def row(self) -> str:
        cells = (
            f"{self.outcome.mean:.2f} [{self.outcome.lower:.2f}, {self.outcome.upper:.2f}]",
            f"{self.cost.mean:.6f} [{self.cost.lower:.6f}, {self.cost.upper:.6f}]",
            f"{self.latency_s.mean:.1f} [{self.latency_s.lower:.1f}, {self.latency_s.upper:.1f}]",
            f"{self.adherence.mean:.2f} [{self.adherence.lower:.2f}, {self.adherence.upper:.2f}]",
            f"{self.reward.mean:.2f} [{self.reward.lower:.2f}, {self.reward.upper:.2f}]",
        )
        return f"| {self.policy} | {self.arm} | {' | '.join(cells)} |"


HEADER = (
    "| Policy | Orchestrator | Outcome | Cost, USD | Latency, s | Adherence | Reward |\n"
    "|---|---|---|---|---|---|---|"
)


def lines(policy: str, weights: Preferences, results: Results, baseline: str) -> list[Line]:
    earned = _rewards(weights, results)
    return [
        Line(
            arm,
            policy,
            _mean(episodes, lambda each: each.score or 0.0),
            _mean(episodes, cost),
            _mean(episodes, lambda each: each.latency_s),
            paired_interval(_adherence(weights, episodes, base), ONE_SIDED),
            paired_interval(earned[arm], ONE_SIDED),
        )
        for arm, episodes in results.items()
        for base in [results.get(baseline, episodes)]
    ]


def gain(weights: Preferences, results: Results, ours: str, theirs: str) -> Interval:
    earned = _rewards(weights, results)
    pairs = zip(earned[ours], earned[theirs], strict=True)
    return paired_interval([mine - other for mine, other in pairs], ONE_SIDED)


def change(
    episodes: Sequence[Evaluated], others: Sequence[Evaluated], measure: Measure
) -> Interval:
    before = {each.task_id: measure(each) for each in others}
    pairs = [(each, before[each.task_id]) for each in episodes if each.task_id in before]
    return paired_interval([measure(each) - other for each, other in pairs], ONE_SIDED)


def _rewards(weights: Preferences, results: Results) -> dict[str, list[float]]:
    """By arm; the episodes on one task are a group."""
    tools = tuple(weights.tools)
    wanted = RewardWeights(
        tuple(weights.tools.values()), weights.outcome, weights.compute, weights.latency
    )
    groups = [
        rewards([_features(each, tools) for each in group], wanted)
        for group in zip(*results.values(), strict=True)
    ]
    return {arm: [float(g[place]) for g in groups] for place, arm in enumerate(results)}


def _adherence(
    weights: Preferences, episodes: Sequence[Evaluated], baseline: Sequence[Evaluated]
) -> list[float]:
    pairs = zip(episodes, baseline, strict=True)
    return [adherence_score(_behaviour(one), _behaviour(base), weights) for one, base in pairs]


def _mean(episodes: Sequence[Evaluated], measure: Measure) -> Interval:
    return paired_interval([measure(each) for each in episodes], ONE_SIDED)


def _features(episode: Evaluated, tools: Sequence[str]) -> Features:
    calls = tuple(episode.calls.get(tool, 0) for tool in tools)
    return Features(calls, episode.score == 1, cost(episode), episode.latency_s)


def _behaviour(episode: Evaluated) -> Behaviour:
    outcome = float(episode.score == 1)
    return Behaviour(episode.calls, outcome, cost(episode) * MINOR_UNITS, episode.latency_s)


def cost(episode: Evaluated) -> float:
    """US dollars."""
    if episode.cost is None:
        raise ValueError(f"{episode.task_id}: a call had no price")
    return float(episode.cost)
