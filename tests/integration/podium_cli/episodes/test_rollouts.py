"""Rollouts: run by the command, and submitted to workers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.podium_cli.conftest import CommandLine
from openai_server import OpenAiServer, Reply
from podium_training.tasks.task import Call, Split, Task

TASK = Task(
    "sum-1",
    "arithmetic",
    Split.TRAIN,
    "What is 6 times 7?",
    "numeric",
    {"expected": "42"},
    (Call("calculator", {"expression": "6 * 7"}),),
)
OPTIONS = ("--size", "3", "--at-once", "1", "--tools", "4")


def call(**arguments: Any) -> dict[str, Any]:
    return {"thought": "", "tool": "calculator", "arguments": arguments}


def test_a_group_is_scored_and_a_resumed_run_starts_nothing_again(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(TASK.to_json())
    arguments = ("train", "rollout", "--task-file", str(path), *OPTIONS)
    model.push(call(expression="6 * 7"), {"answer": "It is 42"}, {"answer": "41"}, {"answer": "42"})
    run = podium.json(*arguments)
    [group] = run["groups"]
    assert [episode["score"] for episode in group["episodes"]] == [1.0, 0.0, 1.0]
    assert "calculator" in group["tools"]
    ids = [episode["id"] for episode in group["episodes"]]

    listed = podium.json("episodes", "list", "--label", f"run={run['run']}")["episodes"]
    places = {each["id"]: each["spec"]["group"] for each in listed}
    assert {group_of["id"] for group_of in places.values()} == {group["group"]}
    assert [places[each]["sample_index"] for each in ids] == [0, 1, 2]

    asked = len(model.requests)
    assert podium.json(*arguments, "--resume", run["run"]) == run
    assert len(model.requests) == asked, "an episode was run again"


def test_to_measure_is_to_sample_greedily_with_the_tools_that_are_always_there(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    path, measured = tmp_path / "tasks.jsonl", tmp_path / "measured.jsonl"
    path.write_text(TASK.to_json())
    arguments = ("train", "rollout", "--task-file", str(path), "--size", "1", "--tools", "1")
    model.push({"answer": "42"})
    always = ("--always", "dictionary", "--always", "calculator")
    run = podium.json(*arguments, *always, "--greedy", "--evaluation", str(measured))
    assert run["groups"][0]["tools"] == ["calculator", "dictionary"]
    assert model.requests[-1]["temperature"] == 0
    assert json.loads(measured.read_text())["task_id"] == TASK.id

    model.push({"answer": "42"})
    podium.json(*arguments, "--temperature", "0.5")
    assert model.requests[-1]["temperature"] == 0.5
    both = podium(*arguments, "--temperature", "0.5", "--greedy")
    assert (both.returncode, "--greedy takes the likeliest" in both.stderr) == (2, True)

    ended = podium(*arguments, "--always", "abacus")
    assert ended.returncode == 2
    assert "abacus is to be offered always" in ended.stderr


def test_a_broken_line_of_a_task_file_is_named(podium: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(TASK.to_json() + "\n" + json.dumps({"id": "x"}))
    ended = podium("train", "rollout", "--task-file", str(path))
    assert ended.returncode == 2
    assert "line 2" in ended.stderr


def test_missing_training_consent_is_noted_before_the_first_episode(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    tasks, policy = tmp_path / "tasks.jsonl", tmp_path / "policy.yaml"
    tasks.write_text(TASK.to_json())
    # This tenant has no price for the scripted model.
    admitting = "unknownPrice: UNKNOWN_PRICE_RULE_ADMIT"
    policy.write_text(f"name: learning\ntrainingConsent: true\n{admitting}\n")
    podium.json("policies", "apply", "-f", str(policy))
    arguments = ("train", "rollout", "--task-file", str(tasks), "--size", "1")
    for options, noted in (((), True), (("--policy", "learning"), False)):
        model.push({"answer": "42"})
        ended = podium(*arguments, *options)
        assert ended.returncode == 0, ended.stderr
        assert ("does not consent to training" in ended.stderr) is noted
        assert ended.stderr.find("does not consent") < ended.stderr.index("1/1")


def test_a_rejected_rollout_is_reported_in_two_lines(podium: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(TASK.to_json())
    ended = podium("train", "rollout", "--task-file", str(path), "--policy", "nosuch")
    assert ended.returncode == 1
    assert "nosuch" in ended.stderr
    assert "Traceback" not in ended.stderr


TASKS, SIZE = 4, 2
PATIENCE_S = 90
SLOW_S = 0.4


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    tasks = [
        Task(
            f"sum-{number}",
            "arithmetic",
            Split.TRAIN,
            f"What is 6 times 7, and not {number}?",
            "numeric",
            {"expected": "42"},
            (Call("calculator", {"expression": "6 * 7"}),),
        )
        for number in range(TASKS)
    ]
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(f"{task.to_json()}\n" for task in tasks))
    return path


@pytest.fixture
def workers(podium: CommandLine) -> Iterator[list["subprocess.Popen[str]"]]:
    """Started by the test, ended after it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for worker in started:
        worker.kill()
        worker.communicate()


def submit(podium: CommandLine, path: Path, *options: str) -> "subprocess.Popen[str]":
    size = ("--size", str(SIZE), "--at-once", "1", "--tools", "2", "--tool-subsets", "1")
    return podium.start("train", "submit", "--task-file", str(path), *size, *options, "--json")


def start_in_pod(podium: CommandLine) -> "subprocess.Popen[str]":
    """A worker configured by its environment alone, as in the chart."""
    connection = json.loads((podium.state_dir / "connection.json").read_text())
    settings = {
        "PODIUM_TRAIN_TEMPORAL_TARGET": connection["temporal_target"],
        **{
            f"PODIUM_TRAIN_TEMPORAL__{name.upper()}": value
            for name, value in connection["temporal"].items()
        },
        "PODIUM_TRAIN_GATEWAY_TARGET": connection["gateway_url"],
        "PODIUM_TRAIN_API_KEY": connection["api_key"],
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "podium_evaluation.worker"]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], **settings},
    )


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_a_run_survives_its_worker_and_no_episode_is_run_twice(
    podium: CommandLine,
    model: OpenAiServer,
    task_file: Path,
    workers: list["subprocess.Popen[str]"],
) -> None:
    asked = len(model.requests)
    answer = json.dumps({"answer": "42"})
    model.push(*[Reply(answer, delay_s=SLOW_S)] * (TASKS * SIZE))
    waiting = submit(podium, task_file, "--wait")
    workers.append(podium.start("train", "worker"))
    deadline = time.monotonic() + PATIENCE_S
    while len(model.requests) < asked + SIZE + 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    # In the middle of a group.
    workers[0].send_signal(signal.SIGKILL)
    workers.append(start_in_pod(podium))
    stdout, stderr = waiting.communicate(timeout=PATIENCE_S * 2)
    assert waiting.returncode == 0, stderr
    assert "does not consent to training" in stderr
    progress = json.loads(stdout)
    assert progress["done"] == {
        "groups": TASKS,
        "episodes": TASKS * SIZE,
        "solved": TASKS * SIZE,
        "unjudged": 0,
    }
    assert len(model.requests) == asked + TASKS * SIZE, "an episode was run again"
    listed = podium.json("episodes", "list", "--label", f"run={progress['run_id']}")
    assert len(listed["episodes"]) == TASKS * SIZE
    tool_subsets = {tuple(each["spec"]["tool_names"]) for each in listed["episodes"]}
    assert len(tool_subsets) == 1, "groups did not share their choice of tools"

    # Submitting the same run again returns the existing run.
    again = submit(podium, task_file, "--wait", "--run", progress["run_id"])
    assert json.loads(again.communicate(timeout=PATIENCE_S)[0]) == progress


def test_a_schedule_is_created_once_and_an_existing_one_is_reported(
    podium: CommandLine, task_file: Path
) -> None:
    options = ("--cron", "0 3 1 1 *", "--name", "yearly")
    made = submit(podium, task_file, *options)
    assert json.loads(made.communicate(timeout=PATIENCE_S)[0]) == {"schedule": "yearly"}
    rejected = submit(podium, task_file, *options)
    assert "there is a schedule yearly already" in rejected.communicate(timeout=PATIENCE_S)[1]
    assert rejected.returncode == 2
    unreadable = submit(podium, task_file, "--cron", "nightly", "--name", "nights")
    assert "no schedule nights of 'nightly'" in unreadable.communicate(timeout=PATIENCE_S)[1]
    assert unreadable.returncode == 2
