"""Rollouts that no terminal waits for: workers are killed, and nothing is run twice."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.podium_cli.conftest import CommandLine
from openai_server import OpenAiServer, Reply
from podium_training.tasks.task import Call, Split, Task

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
    command = [sys.executable, "-m", "podium_training.rollouts.worker"]
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
