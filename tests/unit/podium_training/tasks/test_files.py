"""Tasks as JSON lines."""

from dataclasses import replace
from pathlib import Path

import pytest

from podium_kit.client.errors import UsageError
from podium_training.tasks.files import read_tasks
from podium_training.tasks.task import Split, Task

TASK = Task("a", "f", Split.TRAIN, "What is\u2028one\x85and one?", "exact", {"expected": "2"}, ())


def write(folder: Path, *tasks: Task) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("".join(f"{task.to_json()}\n" for task in tasks), encoding="utf-8")
    return path


def test_what_was_written_is_read_whatever_it_asks(tmp_path: Path) -> None:
    tasks = [TASK, replace(TASK, id="b")]
    assert read_tasks(write(tmp_path, *tasks)) == tasks


def test_a_task_that_comes_twice_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 3: task a came before"):
        read_tasks(write(tmp_path, TASK, replace(TASK, id="b"), TASK))
