"""The gate: confidence, limits and decisions."""

import itertools
import math
import random
from decimal import Decimal
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.evaluations import evaluated
from podium_training.gate import (
    GateRules,
    InvalidEvaluation,
    Objective,
    UnplannedLook,
    Verdict,
    decide,
    pair,
    paired_interval,
    read_decision,
    read_evaluation,
    write_decision,
)
from podium_training.gate.evaluation import Pair
from podium_training.gate.rules import latency_p95_s

DIFFERENCES = st.lists(st.floats(-1, 1), min_size=1, max_size=30)


def enumerated(values: list[float], confidence: float) -> tuple[float, float]:
    """Bounds over all len(values) ** len(values) resamples, each as likely as any other."""
    means = [fmean(chosen) for chosen in itertools.product(values, repeat=len(values))]
    return float(np.quantile(means, 1 - confidence)), float(np.quantile(means, confidence))


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_bounds_are_those_of_all_resamples(confidence: float) -> None:
    values = [-0.4, 0.0, 0.1, 0.35, 0.8, 0.95]
    lower, upper = enumerated(values, confidence)
    found = paired_interval(values, confidence)
    # 46,656 resamples lie closely; 10,000 drawn ones find their quantiles nearly.
    assert found.lower == pytest.approx(lower, abs=0.02)
    assert found.upper == pytest.approx(upper, abs=0.02)


def test_two_pairs_by_hand() -> None:
    # Means of (0, 0), (0, 1), (1, 0), (1, 1): 0 with chance 1/4, so it is the lower bound.
    found = paired_interval([0.0, 1.0])
    assert (found.mean, found.lower, found.upper) == (0.5, 0.0, 1.0)


def test_equal_differences_leave_no_doubt() -> None:
    found = paired_interval([0.25] * 7)
    assert (found.mean, found.lower, found.upper) == (0.25, 0.25, 0.25)


def test_bounds_approach_those_of_the_normal_distribution() -> None:
    values = np.random.default_rng(1).normal(0.3, 1.0, 2000)
    found = paired_interval(values.tolist())
    error = 1.6449 * values.std() / math.sqrt(len(values))
    assert found.lower == pytest.approx(values.mean() - error, abs=0.1 * error)
    assert found.upper == pytest.approx(values.mean() + error, abs=0.1 * error)


@given(DIFFERENCES)
@settings(max_examples=20)
def test_bounds_enclose_the_mean_and_stay_within_the_values(values: list[float]) -> None:
    found = paired_interval(values)
    assert min(values) - 1e-9 <= found.lower <= found.upper <= max(values) + 1e-9


@given(DIFFERENCES)
@settings(max_examples=10)
def test_swapping_the_policies_mirrors_the_interval(values: list[float]) -> None:
    ours, theirs = paired_interval(values), paired_interval([-value for value in values])
    assert ours.lower == pytest.approx(-theirs.upper, abs=1e-9)
    assert ours.mean == pytest.approx(-theirs.mean, abs=1e-9)


def test_no_pairs_are_rejected() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        paired_interval([])


OURS, THEIRS = "policy-demo-v2", "policy-demo-v1"


def pairs(count: int, ours: float | None, theirs: float | None, **changes: Any) -> list[Pair]:
    """Every task went the same way; `changes` are the candidate's."""
    return [
        (evaluated(task, OURS, ours, **changes), evaluated(task, THEIRS, theirs))
        for task in range(count)
    ]


def verdict(found: list[Pair], **rules: Any) -> Verdict:
    return decide(OURS, THEIRS, found, GateRules(**rules)).verdict


def test_better_everywhere_is_promoted_with_its_numbers() -> None:
    found = decide(OURS, THEIRS, pairs(40, 1.0, 0.5), GateRules())
    assert found.verdict is Verdict.PROMOTE
    assert found.bounds["score"] == {"mean": 0.5, "lower": 0.5, "upper": 0.5}
    assert found.figures["candidate"] == {
        "mean_cost": "0.01",
        "latency_p95_s": 1.0,
        "format_validity": 1.0,
        "tool_error_rate": 0.0,
    }


def test_the_same_score_is_not_better() -> None:
    assert verdict(pairs(40, 0.5, 0.5)) is Verdict.KEEP


def test_the_same_score_at_less_cost_is_promoted_where_cost_is_the_objective() -> None:
    cheaper = pairs(40, 0.5, 0.5, cost=Decimal("0.005"))
    assert verdict(cheaper, objective=Objective.COST) is Verdict.PROMOTE


def test_no_saving_makes_up_for_a_worse_score() -> None:
    cheaper = pairs(40, 0.4, 0.5, cost=Decimal(0))
    assert verdict(cheaper, objective=Objective.COST, delta=0.05) is Verdict.KEEP
    assert verdict(cheaper, objective=Objective.COST, delta=0.15) is Verdict.PROMOTE


def test_an_unknown_cost_is_not_a_low_one() -> None:
    unknown = pairs(40, 1.0, 0.5, cost=None)
    assert verdict(unknown, objective=Objective.COST) is Verdict.KEEP
    assert verdict(unknown, cost_max=Decimal(100)) is Verdict.KEEP


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"cost": Decimal("0.02")}, {"cost_max": Decimal("0.019")}),
        ({"latency_s": 2.0}, {"latency_p95_max_s": 1.9}),
        ({"malformed_actions": 1}, {"format_validity_min": 0.7}),
        ({"failed_tool_calls": 1}, {"tool_error_rate_max": 0.4}),
        ({"actions": 0}, {}),
    ],
)
def test_a_hard_limit_holds_whatever_the_score(
    changes: dict[str, Any], rules: dict[str, Any]
) -> None:
    assert verdict(pairs(40, 1.0, 0.0, **changes), **rules) is Verdict.KEEP


def test_limits_are_met_at_their_very_values() -> None:
    just = pairs(40, 1.0, 0.0, failed_tool_calls=1, cost=Decimal("0.02"), latency_s=2.0)
    rules = {"tool_error_rate_max": 0.5, "cost_max": Decimal("0.02"), "latency_p95_max_s": 2.0}
    assert verdict(just, **rules) is Verdict.PROMOTE


def test_p95_of_twenty_latencies_is_the_nineteenth() -> None:
    found = [evaluated(n, OURS, 1.0, latency_s=float(n)) for n in range(1, 21)]
    assert latency_p95_s(found) == 19.0


def test_too_many_unjudged_answers_are_no_evaluation() -> None:
    found = pairs(36, 1.0, 0.5) + pairs(40, None, 0.0)[36:]
    assert verdict(found) is Verdict.KEEP
    assert verdict(found, unjudged_max=0.1) is Verdict.PROMOTE


def test_too_many_unjudged_answers_of_the_promoted_policy_are_no_evaluation() -> None:
    found = pairs(35, 1.0, 0.5) + pairs(50, 1.0, None)[35:]
    decision = decide(OURS, THEIRS, found, GateRules())
    assert decision.verdict is Verdict.KEEP
    assert decision.reasons == ("promoted policy: 30.0% of episodes unjudged, at most 5.0%",)


def test_an_unjudged_answer_is_neither_right_nor_wrong() -> None:
    judged = pairs(36, 1.0, 0.5)
    for ours, theirs in ((None, 1.0), (None, 0.0), (1.0, None), (0.0, None), (None, None)):
        found = decide(OURS, THEIRS, judged + pairs(38, ours, theirs)[36:], GateRules())
        assert found.bounds == decide(OURS, THEIRS, judged, GateRules()).bounds
    too_few = decide(OURS, THEIRS, pairs(29, 1.0, 0.5) + pairs(30, None, 0.5)[29:], GateRules())
    assert too_few.reasons[0] == "pairs of 29 tasks, of at least 30"


def test_an_answer_of_an_unknown_task_voids_the_evaluation() -> None:
    mixed = pairs(40, 1.0, 0.0, model_versions=(OURS, THEIRS))
    found = decide(OURS, THEIRS, mixed, GateRules())
    assert found.verdict is Verdict.KEEP
    assert "policy-demo-v1 answered" in found.reasons[0]


def test_an_early_look_continues_stops_or_promotes() -> None:
    rules = {"looks": 4, "pairs_min": 20}
    assert verdict(pairs(10, 1.0, 0.0), **rules) is Verdict.CONTINUE
    assert verdict(pairs(20, 1.0, 0.0), **rules) is Verdict.PROMOTE
    assert verdict(pairs(20, 0.0, 1.0), **rules) is Verdict.KEEP
    evenly = pairs(15, 1.0, 0.0) + pairs(30, 0.0, 1.0)[15:]
    assert verdict(evenly, **rules) is Verdict.CONTINUE


def test_the_last_look_decides() -> None:
    rules = GateRules(looks=2)
    assert decide(OURS, THEIRS, pairs(5, 1.0, 0.0), rules, look=2).verdict is Verdict.KEEP
    with pytest.raises(UnplannedLook):
        decide(OURS, THEIRS, pairs(5, 1.0, 0.0), rules, look=3)


def test_every_look_pays_its_share_of_the_error() -> None:
    assert GateRules(looks=5).look_confidence == pytest.approx(0.99)


def test_a_policy_that_is_no_better_is_seldom_promoted_however_often_one_looks() -> None:

    draw, wrong = random.Random(0), 0
    rules = GateRules(looks=3, delta=1.0)
    for _ in range(60):
        drawn = [
            (
                evaluated(task, OURS, float(draw.random() < 0.5)),
                evaluated(task, THEIRS, float(draw.random() < 0.5)),
            )
            for task in range(90)
        ]
        looks = [decide(OURS, THEIRS, drawn[: 30 * n], rules, look=n) for n in (1, 2, 3)]
        wrong += any(look.verdict is Verdict.PROMOTE for look in looks)
    # 5 % of 60 are 3; more than 8 would have a chance below 1 in 100.
    assert wrong <= 8


def test_more_seeds_of_a_task_are_no_more_tasks() -> None:
    def played(tasks: int, seeds: int) -> list[Pair]:
        return [
            (
                evaluated(task, OURS, float(task % 5 < 3), seed=seed),
                evaluated(task, THEIRS, float(task % 5 >= 3), seed=seed),
            )
            for task in range(tasks)
            for seed in range(seeds)
        ]

    once = decide(OURS, THEIRS, played(30, 1), GateRules())
    often = decide(OURS, THEIRS, played(30, 8), GateRules())
    assert often.pairs == 8 * once.pairs
    assert (often.verdict, often.bounds) == (once.verdict, once.bounds)
    assert often.verdict is Verdict.KEEP
    few = decide(OURS, THEIRS, played(10, 8), GateRules())
    assert few.reasons == ("pairs of 10 tasks, of at least 30",)


def test_episodes_are_paired_by_task_and_seed_and_none_may_be_missing() -> None:
    ours = [evaluated(1, OURS, 1.0), evaluated(2, OURS, 0.0)]
    theirs = [evaluated(2, THEIRS, 1.0), evaluated(1, THEIRS, 0.0)]
    assert [(a.task_id, b.score) for a, b in pair(ours, theirs)] == [
        ("task-1", 0.0),
        ("task-2", 1.0),
    ]
    with pytest.raises(InvalidEvaluation, match="have no partner, such as task task-2, seed 0"):
        pair(ours, theirs[1:])
    with pytest.raises(InvalidEvaluation, match="twice"):
        pair([*ours, ours[0]], theirs)


def test_a_damaged_evaluation_is_rejected_by_line(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.jsonl"
    path.write_text(evaluated(1, OURS, 1.0).model_dump_json() + '\n{"task_id": "x"}\n')
    with pytest.raises(InvalidEvaluation, match="line 2: seed"):
        read_evaluation(path)


def test_a_decision_is_read_back_as_it_was_made(tmp_path: Path) -> None:
    made = decide(OURS, THEIRS, pairs(40, 1.0, 0.5), GateRules(cost_max=Decimal("0.5")))
    write_decision(tmp_path, made)
    assert read_decision(tmp_path, OURS) == made
    assert read_decision(tmp_path, THEIRS) is None
