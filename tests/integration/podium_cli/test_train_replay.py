"""`podium train replay` against a whole platform: past tasks in groups, within a day's budget."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.test_evaluation_replays import run
from integration.podium_cli.test_evaluations import policies  # noqa: F401 a fixture
from openai_server import OpenAiServer
from podium_evaluation.suites.past_episodes import task_id
from podium_training.tasks.splits import split_of
from podium_training.tasks.task import Split

POLICY = "preset: balanced\nunknown_price: admit\ntraining_consent: true\n"
# One question of each split.
QUESTIONS = [f"What is 6 times 7, {number}?" for number in range(100)]
LEARNT, HELD_OUT = (
    next(each for each in QUESTIONS if split_of(task_id(each)) is split)
    for split in (Split.TRAIN, Split.HELD_OUT)
)


def liked(podium: CommandLine, model: OpenAiServer, question: str, policy: str) -> None:
    model.push({"answer": "42"})
    episode = run(podium, question, policy, "calculator")["id"]
    podium.json("episodes", "feedback", episode, "--score", "1")


def apply(podium: CommandLine, folder: Path, name: str, more: str = "") -> str:
    (folder / f"{name}.yaml").write_text(f"name: {name}\n{POLICY}{more}")
    podium.json("policies", "apply", "-f", str(folder / f"{name}.yaml"))
    return name


@pytest.mark.usefixtures("policies")
def test_past_tasks_are_played_in_groups_once_and_within_the_days_budget(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    policy = apply(podium, tmp_path, "replaying", "learning: {replay_budget: 1 USD}\n")
    liked(podium, model, LEARNT, policy)
    liked(podium, model, HELD_OUT, policy)
    held = tmp_path / "held.jsonl"
    command = ("train", "replay", policy, "--size", "2", "--held-out", str(held))
    model.push({"answer": "42"}, {"answer": "41"})
    found = podium.json(*command, "--at-once", "1")
    [group] = found["groups"]
    assert group["task"] == task_id(LEARNT)
    assert [each["score"] for each in group["episodes"]] == [1, 0]
    assert HELD_OUT in held.read_text() and LEARNT not in held.read_text()
    assert model.requests[-1]["temperature"] == 1
    costs = [Decimal(each["cost"]) for each in group["episodes"]]
    assert Decimal(found["spent"]) == sum(costs) > 0

    asked = len(model.requests)
    again = podium.json(*command)
    assert again["groups"] == found["groups"] and again["spent"] == found["spent"]
    assert len(model.requests) == asked, "a replay was played again"


@pytest.mark.usefixtures("policies")
def test_nothing_is_replayed_without_consent_or_beyond_the_budget(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    def stderr(*options: Any) -> str:
        ended = podium("train", "replay", *options)
        assert ended.returncode == 2, ended.stderr
        return " ".join(ended.stderr.split())

    assert "does not consent to training" in stderr("eval-cost")
    policy = apply(podium, tmp_path, "unbudgeted")
    assert "has no replay budget" in stderr(policy)
    policy = apply(podium, tmp_path, "tight", "learning: {replay_budget: 0.000000000001 USD}\n")
    liked(podium, model, LEARNT, policy)
    asked = len(model.requests)
    found = podium.json("train", "replay", policy, "--size", "4", "--at-once", "1")
    assert found["budget_spent"], found
    assert Decimal(found["spent"]) <= Decimal("0.000000000001")
    assert len(model.requests) == asked
