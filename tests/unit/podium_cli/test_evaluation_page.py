from pathlib import Path

from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_cli.evaluations.page import Failure, worst, write_page
from podium_evaluation.results.failures import FailureClass
from podium_evaluation.results.trials import Results
from unit.podium_evaluation.trial_results import trial

EVIL = "<script>alert(1)</script>"


def results() -> Results:
    stored = pb.Evaluation(
        id="0190a000-0000-7000-8000-000000000000",
        suite=f"sums {EVIL}",
        suite_digest="d" * 64,
        comparability_key={"turn_limit": "6"},
        arms=[pb.EvaluationArm(name="a & b"), pb.EvaluationArm(name="c")],
        repeats=1,
    )
    trials = [
        trial(arm, str(place), float(place % 2), question=EVIL, explanation=EVIL, family=EVIL)
        for arm in ("a & b", "c")
        for place in range(8)
    ]
    return Results(stored, [], trials)


def test_the_page_holds_every_part_and_runs_nothing_that_a_model_wrote(tmp_path: Path) -> None:
    found = results()
    failures = [
        Failure(each, FailureClass.WRONG_TOOL, EVIL, [f"calculator({EVIL}) -> {EVIL}"])
        for each in found.trials
        if not each.score
    ]
    path = tmp_path / "page.html"
    write_page(path, found, failures, "http://127.0.0.1:1")
    text = path.read_text(encoding="utf-8")
    assert EVIL not in text
    for part in (
        "Arms",
        "Pairs",
        "Choosing an arm",
        "By family",
        "Failures",
        "Worst items",
        "d" * 64,
    ):
        assert part in text, part
    assert text.count("<svg") == 2
    assert "0.500 [0.2" in text and "turn_limit" in text
    # Nothing is loaded from elsewhere.
    assert "src=" not in text and "@import" not in text


def test_a_run_without_a_judged_trial_has_a_page_without_plots(tmp_path: Path) -> None:
    found = results()
    unjudged = [trial("c", each.item_id, None) for each in found.trials]
    path = tmp_path / "page.html"
    write_page(path, Results(found.evaluation, [], unjudged), [], "http://127.0.0.1:1")
    text = path.read_text(encoding="utf-8")
    assert "unknown" in text and "<svg" not in text


def test_items_that_most_trials_failed_come_first() -> None:
    failed = [
        Failure(trial(arm, item, 0.0), FailureClass.WRONG_ANSWER, "", [])
        for arm, item in (("a", "once"), ("a", "twice"), ("b", "twice"))
    ]
    assert [each.trial.item_id for each in worst(failed)] == ["twice", "twice", "once"]
