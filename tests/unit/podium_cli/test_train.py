"""`podium train tasks` writes lines that are read back as the same tasks."""

from pathlib import Path

from typer.testing import CliRunner

from podium_cli.app import app
from tasksets.task import Split, Task
from tasksets.taskset import generate

RUNNER = CliRunner()


def test_tasks_are_written_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    options = ["--count", "6", "--family", "dates", "--split", "held-out", "--out", str(path)]
    assert RUNNER.invoke(app, ["train", "tasks", *options]).exit_code == 0
    written = [Task.from_json(line) for line in path.read_text().splitlines()]
    assert written == generate(6, Split.HELD_OUT, families=["dates"])


def test_shown_tasks_do_not_give_the_answer_away() -> None:
    shown = RUNNER.invoke(app, ["train", "tasks", "--count", "2", "--family", "dates", "--json"])
    assert "dates-train-0-0" in shown.stdout
    assert "expected" not in shown.stdout


def test_unknown_family_is_refused_with_the_known_ones() -> None:
    refused = RUNNER.invoke(app, ["train", "tasks", "--family", "riddles"])
    assert refused.exit_code == 2
    assert "arithmetic" in refused.stderr
