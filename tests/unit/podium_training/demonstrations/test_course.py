from functools import cache
from pathlib import Path

import pytest
import yaml

from podium_kit.bundled_files import bundled_folder
from podium_training.demonstrations.course import draw_tasks, write
from podium_training.demonstrations.demo import Demo
from podium_training.tasks.kinds import kinds
from podium_training.tasks.task import Split, Task
from podium_training.tasks.taskset import FAMILIES

COUNT = 600


@cache
def course() -> list[Task]:
    return list(draw_tasks(COUNT, seed=1))


@cache
def demo() -> Demo:
    return Demo(bundled_folder() / "tasks")


def asked(question: str) -> Task:
    return Task("id", "facts", Split.TRAIN, question, "contains", {"expected": "x"})


def test_a_family_comes_up_as_often_as_it_has_kinds() -> None:
    every = sum(len(kinds(family)) for family in FAMILIES)
    for family in FAMILIES:
        count = sum(task.family == family for task in course())
        assert 0.3 < count / (COUNT * len(kinds(family)) / every) < 3, family


def test_the_same_seed_makes_the_same_course() -> None:
    assert list(draw_tasks(40, seed=1)) == course()[:40]


def test_tasks_are_written_line_by_line(tmp_path: Path) -> None:
    write(tmp_path / "tasks.jsonl", 20, seed=1)
    lines = (tmp_path / "tasks.jsonl").read_text().splitlines()
    assert [Task.from_json(line) for line in lines] == course()[:20]


@pytest.mark.parametrize(
    "question",
    [
        "capital of Burkina Faso",
        "On which weekday was November 9, 1989?",
        "What is 2,043 times 1789?",
        "How far is KEF from OSL?",
        "What is 26.2 miles in feet?",
        "Who heads the Turku office of Larkfield?",
        'What is the opposite of "victory"?',
        "When is the new moon in August 2026?",
        "How many s are in Mississippi?",
    ],
)
def test_a_question_on_what_the_demo_asks_is_left_out(question: str) -> None:
    assert demo().asks_like(asked(question))


@pytest.mark.parametrize(
    "question",
    ["capital of Peru", "What is 17% of 2,340?", "Is 2026-05-01 a holiday in Poland?", "3 x 5"],
)
def test_another_question_is_not(question: str) -> None:
    assert not demo().asks_like(asked(question))


def test_every_question_of_the_demo_is_like_the_demo() -> None:
    for path in (bundled_folder() / "tasks").glob("*.yaml"):
        for task in yaml.safe_load(path.read_text())["tasks"]:
            assert demo().asks_like(asked(task["question"])), task["question"]
