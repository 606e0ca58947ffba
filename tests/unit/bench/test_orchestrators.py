"""The table of orchestrators: who is right and cheap earns most, and how sure that is."""

from decimal import Decimal

import pytest

from bench.orchestrators.comparison import gain, lines
from bench.orchestrators.vectors import read_policies, weights_of
from podium_training.gate import Evaluated


def make_episode(task: int, score: float, cost: str, latency_s: float) -> Evaluated:
    return Evaluated(
        task_id=f"t{task}",
        seed=0,
        score=score,
        cost=Decimal(cost),
        latency_s=latency_s,
        actions=2,
        malformed_actions=0,
        tool_calls=1,
        failed_tool_calls=0,
        model_versions=("m",),
    )


RESULTS = {
    "expert": [make_episode(task, float(task > 0), "0.04", 4.0) for task in range(8)],
    "small": [make_episode(task, 1.0, "0.0004", 2.0) for task in range(8)],
    "lost": [make_episode(task, 0.0, "0.0002", 1.0) for task in range(8)],
}


@pytest.mark.parametrize("policy", read_policies())
def test_right_and_cheap_wins_under_every_policy(policy: str) -> None:
    weights = weights_of(read_policies()[policy])
    expert, small, lost = lines(policy, weights, RESULTS, "expert")
    assert (expert.outcome.mean, small.outcome.mean, lost.outcome.mean) == (0.875, 1.0, 0.0)
    assert expert.outcome.lower < 0.875 < expert.outcome.upper
    assert small.reward.mean > expert.reward.mean > lost.reward.mean == 0
    assert small.adherence.mean > expert.adherence.mean > lost.adherence.mean == 0
    assert small.cost.mean == pytest.approx(0.0004)
    assert gain(weights, RESULTS, "small", "expert").lower > 0
    assert small.row().startswith(f"| {policy} | small | 1.00 [1.00, 1.00] |")
