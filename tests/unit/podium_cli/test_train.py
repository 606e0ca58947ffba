import json
from pathlib import Path

import yaml
from google.protobuf import json_format
from typer.testing import CliRunner

from podium.registry.v1 import policy_pb2
from podium_cli.app import app
from podium_training.tasks.task import Split, Task
from podium_training.tasks.taskset import generate

RUNNER = CliRunner()


def test_tasks_are_written_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    options = ["--count", "6", "--family", "dates", "--split", "held-out", "--output", str(path)]
    assert RUNNER.invoke(app, ["train", "tasks", *options]).exit_code == 0
    written = [Task.from_json(line) for line in path.read_text().splitlines()]
    assert written == generate(6, Split.HELD_OUT, families=["dates"])


def test_shown_tasks_do_not_give_the_answer_away() -> None:
    shown = RUNNER.invoke(app, ["train", "tasks", "--count", "2", "--family", "dates", "--json"])
    assert generate(1, Split.TRAIN, families=["dates"])[0].id in shown.stdout
    assert "expected" not in shown.stdout


def test_unknown_family_is_rejected_with_the_known_ones() -> None:
    rejected = RUNNER.invoke(app, ["train", "tasks", "--family", "riddles"])
    assert rejected.exit_code == 2
    assert "arithmetic" in rejected.stderr


def test_another_source_is_read_with_the_faults_of_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "paper.jsonl"
    good = {"index": 1, "category": "qa", "problem": "What is 6 times 7?", "answer": "42"}
    path.write_text(json.dumps(good))
    options = ["train", "tasks", "--from", "paper", "--file", str(path), "--json"]
    splits = [RUNNER.invoke(app, [*options, "--split", split]) for split in Split]
    shown = [json.loads(each.stdout)["tasks"] for each in splits]
    assert [task["id"] for tasks in shown for task in tasks] == ["paper/1"]
    path.write_text("{}")
    rejected = RUNNER.invoke(app, [*options, "--output", str(tmp_path / "out")])
    assert rejected.exit_code == 2
    assert "line 1" in rejected.stderr
    assert not (tmp_path / "out").exists()


def test_a_source_without_its_file_is_rejected() -> None:
    rejected = RUNNER.invoke(app, ["train", "tasks", "--from", "paper"])
    assert rejected.exit_code == 2
    assert "--file" in rejected.stderr


def test_a_run_is_not_submitted_under_an_id_it_cannot_have(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(f"{generate(1, Split.TRAIN)[0].to_json()}\n")
    rejected = RUNNER.invoke(
        app, ["train", "submit", "--task-file", str(path), "--run", "nightly", "--json"]
    )
    assert rejected.exit_code == 2
    assert "run 'nightly' is not a UUIDv7" in rejected.stderr


def test_preferences_are_written_as_policies_that_apply_reads(tmp_path: Path) -> None:
    path = tmp_path / "asks.yaml"
    options = [
        "--count",
        "12",
        "--tool",
        "ask_llm/small",
        "--prefix",
        "asks",
        "--output",
        str(path),
    ]
    assert RUNNER.invoke(app, ["train", "preferences", *options]).exit_code == 0
    policies = list(yaml.safe_load_all(path.read_text()))
    assert [policy["name"] for policy in policies] == [f"asks-{number}" for number in range(12)]
    for policy in policies:
        json_format.ParseDict(policy, policy_pb2.PolicySpec())
