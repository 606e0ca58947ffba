import hashlib
from collections.abc import Iterable
from pathlib import Path

from podium_kit.client.errors import UnreadableFile, UsageError
from podium_training.tasks.task import InvalidTask, Split, Task


def read_tasks(path: Path) -> list[Task]:
    try:
        with path.open(encoding="utf-8") as file:
            # A text may hold what str.splitlines takes for the end of a line.
            lines = list(file)
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(path, error, "name a JSONL file") from error
    tasks: dict[str, Task] = {}
    for number, line in enumerate(lines, 1):
        try:
            task = Task.from_json(line)
        except InvalidTask as error:
            raise UsageError(f"{path}, line {number}: {error}", "fix or drop the line") from error
        if task.id in tasks:
            # Ids of episodes follow from it: one episode would be counted twice.
            problem = f"{path}, line {number}: task {task.id} came before"
            raise UsageError(problem, "drop the line, or give the task another id")
        tasks[task.id] = task
    return list(tasks.values())


def read_train_tasks(path: Path) -> list[Task]:
    """Reads tasks as `read_tasks` does; a held-out one is an error."""
    tasks = read_tasks(path)
    if held_out := [task.id for task in tasks if task.split is Split.HELD_OUT]:
        raise UsageError(
            f"{held_out[0]} is held out: nothing is learnt from such tasks",
            "make some with `podium train tasks --split train`",
        )
    return tasks


def write_tasks(path: Path, tasks: Iterable[Task]) -> None:
    """Raises OSError."""
    path.write_text("".join(f"{task.to_json()}\n" for task in tasks), encoding="utf-8")


def task_digest(path: Path) -> str:
    """SHA-256 of a task file's bytes. Raises UsageError."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UnreadableFile(path, error, "name a JSONL file") from error
