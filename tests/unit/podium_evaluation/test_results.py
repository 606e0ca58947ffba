from decimal import Decimal

import pytest

from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium_evaluation.results.baselines import baselines, outcomes
from podium_evaluation.results.comparison import compare, differences, parse_gate
from podium_evaluation.results.failures import FailureClass, failure_class
from podium_evaluation.results.figures import arm_figures, pair_figures
from podium_evaluation.results.trials import NOT_RUN, Results, TrialResult
from podium_kit.client.errors import UsageError
from unit.podium_evaluation.trial_results import trial


def test_unjudged_and_unrun_trials_are_in_no_accuracy_but_bound_it() -> None:
    found = arm_figures(
        "a",
        [
            trial("a", "1"),
            trial("a", "2", 0.0),
            trial("a", "3", None),
            trial("a", "4", None, state="not_run", stop_reason="budget_exhausted"),
        ],
    )
    assert found.accuracy is not None and found.accuracy.mean == 0.5
    assert (found.judged, found.unjudged, found.not_run) == (2, 1, 1)
    assert (found.least, found.most) == (1 / 3, 2 / 3)


def test_a_cost_that_is_unknown_once_is_unknown_in_the_mean() -> None:
    known = [trial("a", str(place)) for place in range(3)]
    assert arm_figures("a", known).cost is not None
    found = arm_figures("a", [*known, trial("a", "4", cost=None)])
    assert (found.cost, found.cost_per_solved) == (None, None)


def test_repeats_give_the_chance_that_all_of_k_are_right() -> None:
    scores = {"1": (1.0, 1.0), "2": (1.0, 0.0)}
    found = arm_figures(
        "a",
        [trial("a", item, s, repeat=n) for item, two in scores.items() for n, s in enumerate(two)],
    )
    assert found.passes == {1: 0.75, 2: 0.5}


def test_arms_are_compared_on_the_items_that_both_were_judged_on() -> None:
    ours = [trial("a", str(place), 1.0, cost=Decimal("0.02")) for place in range(10)]
    theirs = [trial("b", str(place), float(place < 8)) for place in range(9)]
    [pair] = pair_figures({"a": ours, "b": theirs})
    assert (pair.first, pair.second, pair.items) == ("a", "b", 9)
    assert pair.accuracy.mean == pytest.approx(-1 / 9)
    assert pair.p_value == pair.adjusted == 1.0
    assert pair.cost_ratio is not None and pair.cost_ratio.value == pytest.approx(0.5)
    assert pair_figures({"a": ours, "b": [trial("b", "other")]}) == []


def test_several_pairs_pay_for_each_other() -> None:
    arms = {
        name: [trial(name, str(place), float(place < solved)) for place in range(12)]
        for name, solved in (("a", 12), ("b", 2), ("c", 1))
    }
    pairs = pair_figures(arms)
    assert [(pair.first, pair.second) for pair in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert all(pair.adjusted >= pair.p_value for pair in pairs)
    assert pairs[0].adjusted == pytest.approx(2 * pairs[0].p_value)


def families() -> list[TrialResult]:
    """Each arm solves its own family; the second is cheaper."""
    made = []
    for place in range(40):
        family = "facts" if place % 2 else "sums"
        for arm, own, cost in (("librarian", "facts", "0.02"), ("mathematician", "sums", "0.01")):
            made.append(
                trial(
                    arm,
                    f"{family}-{place}",
                    float(own == family),
                    family=family,
                    cost=Decimal(cost),
                )
            )
    return made


def test_the_best_of_each_family_is_what_the_oracle_chooses() -> None:
    found = {
        row.name: row for row in baselines(outcomes(families(), ["librarian", "mathematician"]))
    }
    table, fixed = found["best of each family"], found["best fixed"]
    oracle = next(row for name, row in found.items() if name.startswith("oracle"))
    assert oracle.score.mean == table.score.mean == 1.0
    assert (table.gap_closed, fixed.gap_closed) == (1.0, 0.0)
    assert oracle.cost == pytest.approx(0.015) and oracle.top_share == 0.5
    assert found["cheapest"].cost == pytest.approx(0.01)
    assert found["random"].score.mean == pytest.approx(0.5)
    nearest = next(row for name, row in found.items() if name.startswith("nearest"))
    # The questions share no words with their family but by chance of the tokens.
    assert 0 <= nearest.score.mean <= 1


def test_nothing_is_chosen_where_a_cost_is_unknown_or_one_arm_plays() -> None:
    unknown = [*families(), trial("librarian", "sums-0", 1.0, repeat=1, cost=None)]
    assert baselines(outcomes(unknown, ["librarian", "mathematician"])) == []
    assert baselines(outcomes([trial("a", str(n)) for n in range(9)], ["a"])) == []


def results(key: dict[str, str], *arms: str, digest: str = "d") -> Results:
    stored = pb.Evaluation(
        suite_digest=digest,
        comparability_key=key,
        arms=[pb.EvaluationArm(name=arm) for arm in arms],
    )
    trials = [
        trial(arm, str(place), float(place < 50 - 10 * number), cost=Decimal("0.02") / (number + 1))
        for number, arm in enumerate(arms)
        for place in range(60)
    ]
    return Results(stored, [], trials)


def test_a_gate_passes_what_is_certain_and_names_what_is_not() -> None:
    both = results({"turn_limit": "6"}, "large", "small")
    arms = [("large", "small")]
    [met] = compare(both, both, arms, parse_gate("accuracy >= -30pp, cost <= 0.6x"))
    assert met.faults == ()
    [failed] = compare(
        both, both, arms, parse_gate("accuracy >= -1pp, cost <= 0.4x, latency <= 1x")
    )
    accuracy, cost = failed.faults
    assert accuracy.startswith("accuracy >= -1pp: it may be -2")
    assert cost == "cost <= 0.4x: it may be 0.50x"
    # An arm that is equal on 60 items may still be a little worse.
    [same] = compare(both, both, [("small", "small")], parse_gate("accuracy >= -5pp"))
    assert same.faults == ()
    [same] = compare(both, both, [("small", "small")], parse_gate("accuracy >= -1pp"))
    assert len(same.faults) == 1


@pytest.mark.parametrize(
    "text", ["accuracy <= 1pp", "accuracy >= 1x", "cost >= 1x", "speed <= 1x", "cost < 1x", "cost"]
)
def test_a_condition_that_makes_no_sense_is_an_error_that_shows_one_that_does(text: str) -> None:
    with pytest.raises(UsageError, match="is no condition") as error:
        parse_gate(f"accuracy >= -1pp, {text}")
    assert "cost <= 0.8x" in error.value.fix


def test_keys_that_differ_are_an_error_that_names_each_difference() -> None:
    one = results({"turn_limit": "6", "judges": "none"}, "a", digest="a" * 64)
    other = results({"turn_limit": "3", "verifiers": "numeric 1", "judges": "none"}, "a")
    with pytest.raises(UsageError) as error:
        compare(one, other, [], [])
    assert "items is aaaaaaaaaaaa… in one and d in the other" in str(error.value)
    assert "turn_limit is 6 in one and 3 in the other" in str(error.value)
    assert "verifiers is not stated in one" in str(error.value)
    assert "judges" not in str(error.value)
    assert differences({"a": "1"}, {"a": "1"}) == []


def test_runs_are_compared_by_the_names_of_their_arms() -> None:
    one, other = results({}, "a", "b"), results({}, "b", "c")
    [found] = compare(one, other, [], [])
    assert (found.pair.first, found.pair.second) == ("b", "b")
    with pytest.raises(UsageError, match="no arm has one name in both"):
        compare(one, results({}, "c", "d"), [], [])


def turn(*calls: trajectory_pb2.ToolInvocation, malformed: bool = False) -> trajectory_pb2.Turn:
    action = orchestrator_pb.Action(final_answer="41")
    if malformed:
        action = orchestrator_pb.Action(malformed=failure_pb2.Failure(message="no JSON"))
    response = orchestrator_pb.NextActionResponse(action=action)
    return trajectory_pb2.Turn(
        model_call=trajectory_pb2.ModelCall(response=response), tool_invocations=calls
    )


def called(tool: str, arguments: str = "{}", failed: bool = False) -> trajectory_pb2.ToolInvocation:
    seen = orchestrator_pb.Observation(
        call=orchestrator_pb.ToolCall(tool_name=tool, arguments_json=arguments),
        content="" if failed else "41",
    )
    if failed:
        seen.failure.message = "it is away"
    return trajectory_pb2.ToolInvocation(observation=seen)


EXPECTED = (("calculator", '{"expression": "6*7", "round": 1}'),)


@pytest.mark.parametrize(
    ("stop_reason", "turns", "expected"),
    [
        ("budget_exhausted", [turn()], FailureClass.BUDGET),
        ("turn_limit", [turn()], FailureClass.GAVE_UP),
        ("deadline", [turn(malformed=True)], FailureClass.GAVE_UP),
        ("answered", [turn(malformed=True), turn()], FailureClass.FORMAT),
        ("answered", [turn(called("calculator", failed=True)), turn()], FailureClass.TOOL_FAILED),
        ("answered", [turn(called("dictionary")), turn()], FailureClass.WRONG_TOOL),
        ("answered", [turn(called("calculator")), turn()], FailureClass.WRONG_ARGUMENTS),
        (
            "answered",
            [turn(called("calculator", '{"round":1,"expression":"6*7"}')), turn()],
            FailureClass.WRONG_ANSWER,
        ),
    ],
)
def test_a_failure_has_the_first_class_that_fits(
    stop_reason: str, turns: list[trajectory_pb2.Turn], expected: FailureClass
) -> None:
    found = trial("a", "1", 0.0, stop_reason=stop_reason, expected_calls=EXPECTED)
    assert failure_class(found, trajectory_pb2.Trajectory(turns=turns)) is expected


def test_a_trial_is_read_with_the_names_that_figures_and_failures_know() -> None:
    stored = pb.Trial(
        arm="a",
        state=pb.TRIAL_STATE_NOT_RUN,
        stop_reason=episode_pb2.STOP_REASON_BUDGET_EXHAUSTED,
    )
    read = TrialResult.of(stored)
    assert (read.state, read.stop_reason) == (NOT_RUN, "budget_exhausted")
    assert arm_figures("a", [read]).not_run == 1
