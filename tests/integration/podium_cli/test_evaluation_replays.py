"""Suites of past episodes, and their replay without effects, against a whole platform."""

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_fallback_models import as_admin
from integration.podium_cli.test_evaluations import policies, progress  # noqa: F401 a fixture
from openai_server import OpenAiServer

CONSENTING = "preset: balanced\nunknown_price: admit\ntraining_consent: true\n"
ADD = {"thought": "", "tool": "calculator", "arguments": {"expression": "6 * 7"}}


@pytest.fixture
def consenting(
    podium: CommandLine,
    policies: None,  # noqa: F811
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> str:
    """A policy of the test's own, by which its episodes are found."""
    name = f"consenting-{zlib.crc32(request.node.name.encode()):x}"
    (tmp_path / "consenting.yaml").write_text(f"name: {name}\n{CONSENTING}")
    podium.json("policies", "apply", "-f", str(tmp_path / "consenting.yaml"))
    return name


def run(podium: CommandLine, question: str, policy: str, tool: str) -> Any:
    """The episode as it ended: the last of its events."""
    ended = podium("run", question, "--policy", policy, "--tool", tool, "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])["finished"]["episode"]


def ask(
    podium: CommandLine,
    model: OpenAiServer,
    question: str,
    *replies: Any,
    policy: str,
    score: float | None = None,
) -> str:
    model.push(*replies)
    episode = str(run(podium, question, policy, "calculator")["id"])
    if score is not None:
        podium.json("episodes", "feedback", episode, "--score", str(score))
    return episode


def test_a_suite_holds_each_liked_question_once_and_none_without_consent(
    podium: CommandLine, model: OpenAiServer, consenting: str, tmp_path: Path
) -> None:
    answer, words = {"answer": "42"}, {"answer": "It is a product of two numbers"}
    older = ask(podium, model, "What is 6 times 7?", answer, policy=consenting, score=1)
    newest = ask(podium, model, "what is 6 times 7", ADD, answer, policy=consenting, score=1)
    ask(podium, model, "Who are they?", answer, policy=consenting, score=0)
    ask(podium, model, "And who are we?", answer, policy=consenting)
    ask(podium, model, "What is a product?", words, policy=consenting, score=1)
    ask(podium, model, "A private question?", answer, policy="eval-cost", score=1)

    path = tmp_path / "past.jsonl"
    options = ("--since", "1h", "-o", str(path))
    found = podium.json("eval", "suite-from-episodes", *options, "--policy", consenting)
    [task] = map(json.loads, path.read_text().splitlines())
    assert (task["question"], task["replay_of"]) == ("what is 6 times 7", newest)
    assert (task["verifier"], task["parameters"]) == ("numeric", {"expected": "42"})
    assert task["solution"] == [{"tool": "calculator", "arguments": {"expression": "6 * 7"}}]
    assert found["left_out"] == {
        "without a verdict on its answer": 2,
        "asked again later": 1,
        "needs a judge": 1,
    }
    assert older != newest
    found = podium.json("eval", "suite-from-episodes", *options)
    assert "A private question?" not in path.read_text()
    assert found["left_out"]["without training consent"] >= 1
    ended = podium("eval", "suite-from-episodes", "-o", str(path), "--policy", "nosuch")
    assert ended.returncode == 2 and "no episode became a task" in ended.stderr


def test_a_replay_has_no_effects_and_one_that_would_is_diverged(
    podium: CommandLine, model: OpenAiServer, consenting: str, tmp_path: Path
) -> None:
    with as_admin(podium) as http:
        spec = http.get("/v1/tools/calculator").json()["tool"]["spec"]
        effectful = {**spec, "name": "effector", "side_effect": "SIDE_EFFECT_EFFECTFUL"}
        registered = http.post("/v1/tools", json={"spec": effectful, "shared": True})
        assert registered.is_success, registered.text
    call = {**ADD, "tool": "effector"}
    model.push(call, {"answer": "42"})
    first = run(podium, "How many are 6 times 7 apples?", consenting, "effector")
    podium.json("episodes", "feedback", first["id"], "--score", "1")
    path = tmp_path / "apples.jsonl"
    label = ("--policy", consenting, "--since", "1h", "--count", "1", "--solved")
    podium.json("eval", "suite-from-episodes", *label, "-o", str(path))
    [task] = map(json.loads, path.read_text().splitlines())
    assert task["replay_of"] == first["id"]

    other = {**call, "arguments": {"expression": "6 * 8"}}
    model.push(call, {"answer": "42"}, other)
    found = podium.json(
        *("eval", "replay", str(path), "--policy", consenting, "--repeats", "2"),
        *("--budget", "1", "--at-once", "1"),
    )
    arm = progress(found)[consenting]
    assert (arm["judged_count"], arm["score_sum"], arm["diverged_count"]) == (1, 1.0, 1)
    label_of_run = f"evaluation={found['evaluation']['id']}"
    listed = podium.json("episodes", "list", "--label", label_of_run)["episodes"]
    assert [each["spec"]["replay_of"] for each in listed] == [first["id"]] * 2
    assert [each["stop_reason"] for each in listed] == [
        "STOP_REASON_DIVERGED",
        "STOP_REASON_ANSWERED",
    ]
    ended = podium("eval", "replay", str(new_task(tmp_path)), "--budget", "1")
    assert ended.returncode == 2 and "whose effects would be real" in ended.stderr
    with as_admin(podium) as http:
        assert http.delete("/v1/tools/effector").is_success


def new_task(folder: Path) -> Path:
    task = {
        "id": "new",
        "family": "sums",
        "split": "held-out",
        "question": "What is 6 times 7?",
        "verifier": "numeric",
        "parameters": {"expected": "42"},
    }
    (folder / "new.jsonl").write_text(json.dumps(task))
    return folder / "new.jsonl"
