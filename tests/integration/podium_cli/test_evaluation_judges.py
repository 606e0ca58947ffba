"""`podium eval judge` against a whole platform: another judge of the trials that are stored."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from builders.report_pages import document_of
from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_fallback_models import as_admin
from integration.podium_cli.test_evaluations import policies, run_file  # noqa: F401 a fixture
from openai_server import OpenAiServer

CORRECT, INCORRECT = "It agrees.\ncorrect", "It does not.\nincorrect"
MODEL = "claude-scripted"


def judge_tool(base_url: str, name: str, model: str) -> dict[str, Any]:
    answering = {
        "alias": "only",
        "model": model,
        "base_url": base_url,
        "api": "LLM_API_OPENAI_CHAT",
        "sku": "judge-sku",
    }
    return {
        "name": name,
        "kind": "TOOL_KIND_LLM",
        "description": "Judges answers.",
        "side_effect": "SIDE_EFFECT_PURE",
        "parameters_json_schema": '{"type": "object", "properties": {}}',
        "connection": {"llm": {"role": "LLM_ROLE_GENERALIST", "models": [answering]}},
    }


@pytest.fixture
def judge(podium: CommandLine, tmp_path: Path) -> Iterator[OpenAiServer]:
    """Tools at one server: three judges, and ask_sibling of the orchestrator's own family."""
    price = {
        "sku": "judge-sku",
        "tenant": "default",
        "currency_code": "USD",
        "components": [{"dimension": "input_fresh", "unit_price": "1", "per": "1000000"}],
    }
    (tmp_path / "price.json").write_text(json.dumps(price))
    assert podium("prices", "import", str(tmp_path / "price.json")).returncode == 0
    names = {
        "ask_judge": MODEL,
        "ask_second": "gemini-scripted",
        "ask_third": "mistral-scripted",
        "ask_sibling": "scripted-sibling",
    }
    with OpenAiServer(models=list(names.values())) as server, as_admin(podium) as http:
        for name, model in names.items():
            spec = judge_tool(server.base_url, name, model)
            registered = http.post("/v1/tools", json={"spec": spec, "shared": True})
            assert registered.is_success, registered.text
        yield server
        left = server.take_back()
        assert not left, f"replies that were not requested: {left}"
        for name in names:
            assert http.delete(f"/v1/tools/{name}").is_success


@pytest.fixture
def run(
    podium: CommandLine,
    model: OpenAiServer,
    policies: None,  # noqa: F811
    tmp_path: Path,
) -> str:
    """A run of two trials by one arm: the first is right, the second wrong."""
    model.push({"answer": "42"}, {"answer": "41"})
    arms = [{"name": "only", "policy": "eval-cost", "tools": ["calculator"]}]
    found = podium.json("eval", "run", str(run_file(tmp_path, arms=arms)))
    return str(found["evaluation"]["id"])


def test_another_judge_judges_stored_trials_once_and_its_agreement_is_shown(
    podium: CommandLine, model: OpenAiServer, judge: OpenAiServer, run: str, tmp_path: Path
) -> None:
    played = len(model.requests)
    judge.push(CORRECT, CORRECT, "I cannot tell")
    found = podium.json("eval", "judge", run, "--with", "ask_judge", "--at-once", "1")
    assert (found["judged"], found["unjudged"]) == (1, 1)
    asked = len(judge.requests)
    assert "What is 6 times 7" in judge.requests[1]["messages"][-1]["content"]

    # Only the trial without a verdict is asked about again, and the probe is the call of before.
    judge.push(CORRECT)
    found = podium.json("eval", "judge", run, "--with", "ask_judge")
    assert (found["judged"], found["unjudged"]) == (1, 1), "the same call gives the same reply"
    assert len(judge.requests) == asked and len(model.requests) == played
    judge.take_back()

    [agreement] = found["agreements"]
    assert (agreement["trials"], agreement["equal"], agreement["kappa"]) == (1, 1, None)
    page, lines = tmp_path / "page.html", tmp_path / "trials.jsonl"
    podium.json("eval", "report", run, "-o", str(page))
    [shown] = document_of(page)["agreements"]
    assert "ask_judge" in shown["first"] + shown["second"]
    podium.json("eval", "export", run, "-o", str(lines))
    _, first, second = map(json.loads, lines.read_text().splitlines())
    [verdict] = first["verdicts"]
    assert (verdict["judge"], verdict["score"], verdict["verifier"]) == ("ask_judge", 1, "llm")
    assert Decimal(verdict["cost"]["amount"]) > 0 and len(verdict["prompt_digest"]) == 64
    assert "score" not in second["verdicts"][0] and second["score"] == 0

    budget = podium.json("budgets", "show", f"evaluation-{run}")
    assert Decimal(budget["posted"]["amount"]) > Decimal(verdict["cost"]["amount"])


def test_a_judge_is_an_error_before_it_is_paid(
    podium: CommandLine, judge: OpenAiServer, run: str
) -> None:
    for name, words in (
        ("nosuch", "there is no tool nosuch to judge by"),
        ("calculator", "is no tool of kind llm"),
        ("ask_judge/other", "no model other"),
        ("ask_sibling", "would judge scripted-model, of its own family scripted"),
    ):
        ended = podium("eval", "judge", run, "--with", name)
        assert ended.returncode == 2 and words in " ".join(ended.stderr.split()), ended.stderr
    assert not judge.requests
    judge.push("I would rather talk about the weather")
    ended = podium("eval", "judge", run, "--with", "ask_judge")
    assert ended.returncode == 1 and "does not judge a plain case" in ended.stderr
    assert len(judge.requests) == 1
    judge.push(CORRECT, INCORRECT, INCORRECT)
    allowed = podium.json("eval", "judge", run, "--with", "ask_sibling", "--allow-own-family")
    assert allowed["judged"] == 2


def questions(folder: Path, judges: Any, count: int = 1, **changes: Any) -> Path:
    """A run of questions that models judge, by one arm."""
    rows = [
        {"id": number, "question": f"Who are number {number}?", "answer": "Four words and more"}
        for number in range(count)
    ]
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    suite = {"from": "questions", "file": "questions.jsonl", "judge": judges}
    arms = [{"name": "only", "policy": "eval-cost", "tools": ["calculator"]}]
    return run_file(folder, suite=suite, arms=arms, **changes)


@pytest.mark.usefixtures("policies")
def test_of_several_judges_more_than_half_decide_and_the_report_shows_who_differs(
    podium: CommandLine, model: OpenAiServer, judge: OpenAiServer, tmp_path: Path
) -> None:
    names = ["ask_judge", "ask_second", "ask_third"]
    model.push({"answer": "These"}, {"answer": "Those"}, {"answer": "Others"})
    judge.push(CORRECT, CORRECT, CORRECT)  # of a plain case, before the run
    judge.push(CORRECT, INCORRECT, CORRECT)
    judge.push(CORRECT, INCORRECT, "I cannot tell")
    judge.push(INCORRECT, INCORRECT, INCORRECT)
    page, lines = tmp_path / "page.html", tmp_path / "trials.jsonl"
    path = questions(tmp_path, names, 3)
    found = podium.json("eval", "run", str(path), "--report", str(page))
    [arm] = found["progress"]
    assert (arm["judged_count"], arm["score_sum"], arm["unjudged_count"]) == (2, 1.0, 1)

    document = document_of(page)
    figures = {each["judge"]: each for each in document["judges"]}
    assert list(figures) == names
    counts = [(each["right"], each["wrong"], each["unjudged"]) for each in figures.values()]
    assert counts == [(2, 1, 0), (0, 3, 0), (1, 1, 1)]
    paid = sum(Decimal(each["cost"]) for each in figures.values())
    assert paid == Decimal(arm["judge_cost"]["amount"]) > 0
    assert document["disagreeing"] == 2
    tied, outvoted = document["disagreements"]
    assert (tied["score"], outvoted["score"]) == (None, 1.0)
    assert tied["verdicts"] == {"ask_judge": True, "ask_second": False, "ask_third": None}
    assert (document["all_agree"]["judges"], document["all_agree"]["trials"]) == (3, 2)
    assert {each["first"] for each in document["agreements"]} >= {"the trials' checks", *names[:2]}

    podium.json("eval", "export", found["evaluation"]["id"], "-o", str(lines))
    _, first, *_ = map(json.loads, lines.read_text().splitlines())
    assert [vote["score"] for vote in first["votes"]] == [1.0, 0.0, 1.0]
    assert "2 of 3 judges agree" in first["explanation"]


@pytest.mark.usefixtures("policies")
def test_judges_are_calibrated_by_labels_and_a_report_names_that(
    podium: CommandLine, model: OpenAiServer, judge: OpenAiServer, tmp_path: Path
) -> None:
    labels = tmp_path / "labels.jsonl"
    rows = [
        {"task": "Capital of France?", "answer": "Paris", "reference": "Paris", "label": "right"},
        {"task": "Capital of Norway?", "answer": "Oslo", "label": "right"},
        {"task": "Capital of Peru?", "answer": "Quito", "reference": "Lima", "label": "wrong"},
        {"task": "Capital of Chad?", "answer": "Cairo", "label": "wrong"},
    ]
    labels.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    judge.push(CORRECT, CORRECT)  # of a plain case
    judge.push(CORRECT, CORRECT, CORRECT, "I cannot tell")
    judge.push(CORRECT, INCORRECT, INCORRECT, INCORRECT)
    options = ("--judge", "ask_judge", "--judge", "ask_second", "--at-once", "1")
    calibrate = ("eval", "judges", "calibrate", str(labels), *options)
    found = podium.json(*calibrate, "--budget", "0.5")
    assert "Reference answer:\nLima" in judge.requests[-2]["messages"][-1]["content"]
    assert "Reference" not in judge.requests[-1]["messages"][-1]["content"]
    first, second = found["judges"]
    assert (first["judge"], first["model"], first["judged"], first["unjudged"]) == (
        *("ask_judge", MODEL),
        *(3, 1),
    )
    assert first["accuracy"]["mean"] == pytest.approx(2 / 3)
    assert (first["false_positives"]["mean"], first["false_negatives"]["mean"]) == (1.0, 0.0)
    assert (second["accuracy"]["mean"], second["kappa"]["mean"]) == (0.75, 0.5)
    [pair] = found["pairs"]
    assert (pair["answers"], pair["equal"]) == (3, 1)
    assert (found["with_reference"], found["all_agree_kappa"]) == (2, None)
    spent = Decimal(first["cost"]) + Decimal(second["cost"])
    posted = podium.json("budgets", "show", f"evaluation-{found['id']}")["posted"]["amount"]
    assert Decimal(posted) > spent > 0
    listed = podium.json("eval", "judges", "list")["calibrations"]
    assert listed[0]["judges"] == found["judges"]
    assert "ask_judge" in podium("eval", "judges", "list").stdout

    model.push({"answer": "These"})
    judge.push(CORRECT, CORRECT, CORRECT, CORRECT, CORRECT, CORRECT)
    page = tmp_path / "page.html"
    path = questions(tmp_path, ["ask_judge", "ask_second", "ask_third"])
    podium.json("eval", "run", str(path), "--report", str(page))
    known = {each["judge"]: each["calibration"] for each in document_of(page)["judges"]}
    assert known["ask_third"] is None
    assert (known["ask_second"]["name"], known["ask_second"]["model"]) == (
        *("labels", "gemini-scripted"),
    )
    assert known["ask_second"]["agreement"]["accuracy"] == second["accuracy"]

    judge.push(CORRECT)
    ended = podium("eval", "judges", "calibrate", str(labels), *options[:2], "--budget", "0.000001")
    assert ended.returncode == 1 and "budget" in ended.stderr
    judge.take_back()


@pytest.mark.usefixtures("policies")
def test_a_judge_whose_family_wrote_an_answer_leaves_it_unjudged_unless_allowed(
    podium: CommandLine, model: OpenAiServer, judge: OpenAiServer, tmp_path: Path
) -> None:
    # The run file names no orchestrator, so that its family turns out as it plays.
    model.push({"answer": "These"})
    judge.push(CORRECT)
    run = podium.json("eval", "run", str(questions(tmp_path, "ask_sibling")))
    [arm] = run["progress"]
    assert (arm["judged_count"], arm["unjudged_count"]) == (0, 1)
    asked = len(judge.requests)
    lines = tmp_path / "trials.jsonl"
    podium.json("eval", "export", run["evaluation"]["id"], "-o", str(lines))
    reason = json.loads(lines.read_text().splitlines()[1])["explanation"]
    assert "ask_sibling is scripted-sibling and would judge scripted-model" in reason
    assert asked == 1, "it was asked about more than the plain case"

    model.push({"answer": "These"})
    judge.push(CORRECT, CORRECT)
    allowed = questions(tmp_path, "ask_sibling", allow_own_family=True)
    [arm] = podium.json("eval", "run", str(allowed))["progress"]
    assert (arm["judged_count"], arm["score_sum"]) == (1, 1.0)


def test_shadows_are_judged_by_no_model_of_the_candidates_family(
    podium: CommandLine, judge: OpenAiServer
) -> None:
    start = ("eval", "shadow", "start", "--share", "0.1", "--budget", "1")
    for judges, words in (
        (("ask_sibling",), "would judge scripted-model, of its own family scripted"),
        (("ask_judge", "nosuch"), "there is no tool nosuch to judge by"),
    ):
        options = [word for name in judges for word in ("--judge", name)]
        ended = podium(*start, "--model", "scripted-model", *options)
        assert ended.returncode == 2 and words in " ".join(ended.stderr.split()), ended.stderr
    assert not judge.requests


def test_a_run_tries_its_judge_before_it_begins(
    podium: CommandLine,
    model: OpenAiServer,
    judge: OpenAiServer,
    policies: None,  # noqa: F811
    tmp_path: Path,
) -> None:
    path = str(questions(tmp_path, "ask_judge"))
    before = podium.json("eval", "list")["evaluations"]
    judge.push("Hello")
    ended = podium("eval", "run", path)
    assert ended.returncode == 1 and "does not judge a plain case" in ended.stderr
    assert podium.json("eval", "list")["evaluations"] == before
    judge.push(CORRECT, CORRECT)
    model.push({"answer": "Four words and more"})
    found = podium.json("eval", "run", path)
    [arm] = found["progress"]
    assert (arm["judged_count"], arm["score_sum"]) == (1, 1.0)
