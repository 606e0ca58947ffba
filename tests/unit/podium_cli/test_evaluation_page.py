import json
from pathlib import Path

from builders.report_pages import assert_self_contained, document_of
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_cli.evaluations.figures import Failure, report_of, without_content, worst
from podium_cli.report_pages import write_report_page
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
    report = report_of(found, failures, "http://127.0.0.1:1")
    write_report_page(path, report)
    assert EVIL not in path.read_text(encoding="utf-8")
    assert_self_contained(path)
    shown = document_of(path)
    assert shown == json.loads(json.dumps(report))
    assert [arm["arm"] for arm in shown["arms"]] == ["a & b", "c"]
    assert shown["arms"][0]["accuracy"]["mean"] == 0.5 and shown["arms"][0]["on_front"]
    assert shown["families"][EVIL]["c"] == {"solved": 4, "count": 8}
    assert len(shown["pairs"]) == 1 and shown["baselines"] and shown["curves"]
    counts = {row["kind"]: row["counts"] for row in shown["failures"]}
    assert counts[FailureClass.WRONG_TOOL] == {"a & b": 4, "c": 4}
    assert shown["comparability"] == {"turn_limit": "6", "items": "d" * 64}
    assert shown["worst"][0]["answer"] == EVIL
    assert not {"answer", "calls"} & set(without_content(shown)["worst"][0])


def test_a_run_without_a_judged_trial_has_figures_that_are_unknown() -> None:
    found = results()
    unjudged = [trial("c", each.item_id, None) for each in found.trials]
    report = report_of(Results(found.evaluation, [], unjudged), [], "http://127.0.0.1:1")
    assert all(arm["accuracy"] is None and arm["cost"] is None for arm in report["arms"])
    assert not report["pairs"] and not report["curves"]


def test_items_that_most_trials_failed_come_first() -> None:
    failed = [
        Failure(trial(arm, item, 0.0), FailureClass.WRONG_ANSWER, "", [])
        for arm, item in (("a", "once"), ("a", "twice"), ("b", "twice"))
    ]
    assert [each.trial.item_id for each in worst(failed)] == ["twice", "twice", "once"]
