"""Calls of arms, their rewards under preferences, and what budgets leave of them."""

from collections.abc import Mapping
from decimal import Decimal

import pytest

from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_evaluation.results.baselines import Choice, ItemOutcome, baselines
from podium_evaluation.results.choices import arm_choices
from podium_evaluation.results.inspect_logs import arm_log
from podium_evaluation.results.preferences import preference_figures, reward_gain
from podium_evaluation.results.sweeps import arm_curve, limits_of, rule_curves
from podium_evaluation.results.trials import TrialResult
from tool_registry.models import Preferences
from unit.podium_evaluation.trial_results import trial

EXPERTS = {"always large": "ask/large", "always small": "ask/small"}
COUNT = 20


def played(arm: str, place: int) -> TrialResult:
    """The large expert is always right, the small one for even items; the router asks the small one
    for those and the large one else."""
    even = place % 2 == 0
    asked = {"always large": "large", "always small": "small"}.get(arm)
    alias = asked or ("small" if even else "large")
    own = Decimal("0.001") if asked is None else Decimal(0)
    cost = own + (Decimal("0.04") if alias == "large" else Decimal("0.01"))
    return trial(
        arm,
        str(place),
        float(alias == "large" or even),
        cost=cost,
        orchestrator_cost=own,
        calls={"ask": 1, f"ask/{alias}": 1},
    )


BY_ARM: Mapping[str, list[TrialResult]] = {
    arm: [played(arm, place) for place in range(COUNT)] for arm in (*EXPERTS, "router")
}


def test_an_arm_that_always_asks_one_expert_has_collapsed_and_a_router_has_not() -> None:
    large, small, router = arm_choices(BY_ARM, EXPERTS)
    assert (large.top_share, large.evenness, large.over_escalation) == (1.0, 0.0, 0.5)
    assert (router.top_share, router.evenness, router.over_escalation) == (0.5, 1.0, 0.0)
    assert router.calls == {"ask/large": 0.5, "ask/small": 0.5}
    assert small.orchestrator_cost is not None and small.orchestrator_cost.mean == 0
    assert router.orchestrator_cost is not None
    assert router.orchestrator_cost.mean == pytest.approx(0.001)


def test_the_gap_of_a_router_is_that_between_the_best_expert_and_the_oracle() -> None:
    sometimes = [played("always small", place) for place in range(COUNT)]
    # Now the large one is wrong where the small one is right.
    wrong = [
        trial("always large", str(place), float(place % 2), cost=Decimal("0.04"))
        for place in range(COUNT)
    ]
    found = {"always large": wrong, "always small": sometimes, "router": BY_ARM["router"]}
    gap = {each.arm: each.gap_closed for each in arm_choices(found, EXPERTS)}
    assert gap["router"] == 1.0
    assert arm_choices({"router": BY_ARM["router"]}, {})[0].gap_closed is None


def test_the_cost_of_own_tokens_is_unknown_where_it_is_once() -> None:
    found = [*BY_ARM["router"], trial("router", "new", orchestrator_cost=None)]
    [router] = arm_choices({"router": found}, {})
    assert router.orchestrator_cost is None


def items() -> list[ItemOutcome]:
    return [
        ItemOutcome(
            str(place),
            "even" if place % 2 == 0 else "odd",
            "question",
            {
                arm: Choice(each[place].score or 0.0, float(each[place].cost or 0))
                for arm, each in BY_ARM.items()
                if arm in EXPERTS
            },
        )
        for place in range(COUNT)
    ]


def test_rules_learn_from_the_items_that_are_known() -> None:
    always_small = [
        ItemOutcome(
            f"known-{name}",
            name,
            "question",
            {"always large": Choice(0.0, 0.04), "always small": Choice(1.0, 0.01)},
        )
        for name in ("even", "odd")
    ]
    rows = {row.name: row for row in baselines(items(), always_small)}
    assert rows["best of each family"].score.mean == 0.5
    assert rows["best of each family"].top_share == 1.0
    own = {row.name: row for row in baselines(items())}
    assert own["best of each family"].score.mean == 1.0
    assert own["best fixed"].over_escalation == 0.5


def test_a_budget_for_each_trial_cuts_what_costs_more_and_spends_it() -> None:
    limits = limits_of(items())
    assert len(limits) == 7 and [limits[0], limits[-1]] == pytest.approx([0.01, 0.04])
    curve = arm_curve("always large", BY_ARM["always large"], limits)
    assert curve is not None
    assert [point.score.mean for point in curve.points[:6]] == [0.0] * 6
    assert curve.points[0].spent == pytest.approx(0.01)
    assert arm_curve("a", [trial("a", "1", cost=None)], limits) is None


def test_a_rule_with_more_to_spend_is_right_more_often_and_stays_within_it() -> None:
    limits = limits_of(items())
    curves = {curve.name: curve for curve in rule_curves(items(), limits)}
    family = curves["best of each family"].points
    assert (family[0].score.mean, family[-1].score.mean) == (0.5, 1.0)
    oracle = curves["oracle"].points
    assert all(point.spent <= point.limit * 1.0001 for point in oracle)
    assert [each.score.mean for each in oracle] == sorted(each.score.mean for each in oracle)


def test_reward_and_adherence_follow_the_weights() -> None:
    thrift = Preferences(outcome=1.0, compute=1.0, latency=0.0, tools={})
    found = preference_figures(thrift, BY_ARM, "always large")
    assert found["router"].reward.mean > found["always large"].reward.mean
    assert found["always large"].adherence.mean == pytest.approx(2.0)
    assert reward_gain(thrift, BY_ARM, "router", "always large").lower > 0
    assert preference_figures(thrift, {"a": [trial("a", "1", cost=None)]}, "a") == {}


def test_a_log_holds_what_was_judged_and_names_what_was_not() -> None:
    evaluation = pb.Evaluation(
        id="run", suite="sums", arms=[pb.EvaluationArm(name="podium")], repeats=2
    )
    evaluation.end_time.GetCurrentTime()
    log = arm_log(
        evaluation,
        evaluation.arms[0],
        [
            trial("podium", "one", 1.0),
            trial("podium", "one", 0.0, repeat=1),
            trial("podium", "two", None, explanation="the judge failed"),
            trial("podium", "two", None, repeat=1, state="not_run"),
        ],
    )
    assert (log["status"], log["eval"]["metadata"]["not_run"]) == ("success", 1)
    assert [each["epoch"] for each in log["samples"]] == [1, 2, 1]
    assert log["samples"][2]["error"]["message"] == "the judge failed"
    [score] = log["results"]["scores"]
    assert score["metrics"]["accuracy"]["value"] == 0.5
    assert (score["scored_samples"], score["unscored_samples"]) == (2, 1)
