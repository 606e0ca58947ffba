"""`python -m podium_training.demonstrations.course FOLDER`: tasks for a bundled policy to learn.

`tasks.jsonl` has the tasks, each kind of question as often as the others, and `offers.jsonl` which
tools each is offered: all that the default platform has, or a few that hold the solution's.
Tasks that look like those of `podium demo` are left out: it is to measure, not to remind.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import yaml

from podium_kit.bundled_files import bundled_folder
from podium_training.demonstrations.demo import Demo
from podium_training.tasks.kinds import kinds
from podium_training.tasks.task import Split, Task
from podium_training.tasks.taskset import FAMILIES, stream

TOOLS_MIN, TOOLS_MAX = 3, 8
ALL_TOOLS = 0.3
"""How often a task is offered every tool."""


def write(folder: Path, count: int, seed: int) -> None:
    """Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    known = default_tools(bundled_folder())
    random = Random(f"offers/{seed}")  # noqa: S311 chance, not a secret
    with (folder / "tasks.jsonl").open("w") as tasks, (folder / "offers.jsonl").open("w") as offers:
        for task in draw_tasks(count, seed):
            tasks.write(f"{task.to_json()}\n")
            offer = {"task_id": task.id, "tools": offered(task, known, random)}
            offers.write(f"{json.dumps(offer)}\n")


def draw_tasks(count: int, seed: int) -> Iterator[Task]:
    """Different training tasks; a family comes up as often as it has kinds."""
    demo = Demo(bundled_folder() / "tasks")
    random = Random(f"course/{seed}")  # noqa: S311 chance, not a secret
    streams = {family: stream(family, Split.TRAIN, seed) for family in FAMILIES}
    weights = [len(kinds(family)) for family in FAMILIES]
    asked: set[str] = set()
    while len(asked) < count:
        [family] = random.choices(list(FAMILIES), weights)
        task = next(streams[family])
        if task.question not in asked and not demo.asks_like(task):
            asked.add(task.question)
            yield task


def default_tools(bundled: Path) -> list[str]:
    """What `podium up` registers of its own files."""
    paths = bundled.glob("tools/*.yaml")
    return sorted(str(yaml.safe_load(path.read_text())["name"]) for path in paths)


def offered(task: Task, known: list[str], random: Random) -> list[str]:
    """Every tool, or the solution's and some others in an order that gives nothing away."""
    if random.random() < ALL_TOOLS:
        return known
    others = [name for name in known if name not in task.tools]
    size = random.randint(max(TOOLS_MIN, len(task.tools)), TOOLS_MAX)
    tools = [*task.tools, *random.sample(others, size - len(task.tools))]
    random.shuffle(tools)
    return tools


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write tasks for a bundled policy to learn from.")
    parser.add_argument("folder", type=Path, help="for tasks.jsonl and offers.jsonl")
    parser.add_argument("--tasks", type=int, default=10_000, help="how many")
    parser.add_argument("--seed", type=int, default=20, help="the same one makes the same tasks")
    arguments = parser.parse_args()
    write(arguments.folder, arguments.tasks, arguments.seed)
