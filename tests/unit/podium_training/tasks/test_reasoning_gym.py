import sys
from typing import Any

import pytest
import reasoning_gym

from podium_training.tasks.loaders.errors import PackageMissing, UnreadableSource
from podium_training.tasks.loaders.reasoning_gym import load, source_of
from podium_training.tasks.task import Split, Task

FAMILIES = ["gcd", "leg_counting", "caesar_cipher", "countdown"]
TASKS = load(40, Split.TRAIN, 3, FAMILIES)


def run(task: Task, answer: str) -> float:
    names: dict[str, Any] = {}
    exec(task.parameters["code"], names)
    return float(names["check"](answer))


def test_the_same_seed_makes_the_same_tasks_and_another_seed_others() -> None:
    assert load(40, Split.TRAIN, 3, FAMILIES) == TASKS
    others = {task.question for task in load(40, Split.TRAIN, 4, FAMILIES)}
    assert len(others & {task.question for task in TASKS}) < 10


def test_every_family_has_its_share_and_no_question_comes_twice() -> None:
    for name in FAMILIES:
        assert sum(task.family == f"reasoning-gym/{name}" for task in TASKS) == 10
    assert len({task.question for task in TASKS}) == len({task.id for task in TASKS}) == 40


def test_no_question_of_one_split_is_in_the_other_whatever_the_seed() -> None:
    family = ["leg_counting"]
    train = {task.question for task in load(100, Split.TRAIN, 0, family)}
    held_out = {task.question for task in load(100, Split.HELD_OUT, 1, family)}
    assert not train & held_out


def test_an_answer_the_package_accepts_is_accepted_and_another_is_not() -> None:
    for task in TASKS:
        name, index = task.family.split("/")[1], int(task.id.rsplit("-", 1)[1])
        entry = reasoning_gym.create_dataset(name, seed=source_of(3), size=100_000)[index]
        assert entry["question"] == task.question
        if task.verifier == "python":
            assert run(task, entry["answer"]) == 1
            assert run(task, "I do not know.") < 1
        else:
            assert task.judge().judge(entry["answer"]).solved
            assert not task.judge().judge("I do not know.").solved


def test_a_puzzle_with_several_solutions_is_scored_by_the_package() -> None:
    verifiers = {task.family.split("/")[1]: task.verifier for task in TASKS}
    assert verifiers["gcd"] == "numeric"
    assert verifiers["countdown"] == "python"


def test_a_check_of_another_version_of_the_package_scores_nothing() -> None:
    task = next(task for task in TASKS if task.verifier == "python")
    names: dict[str, Any] = {}
    exec(task.parameters["code"].replace(f"seed={source_of(3)}", "seed=4"), names)
    with pytest.raises(ValueError, match="this version of reasoning-gym makes other tasks"):
        names["check"]("1")


@pytest.mark.parametrize("families", [[], ["riddles"]])
def test_families_must_be_named_and_known(families: list[str]) -> None:
    with pytest.raises(UnreadableSource, match="basic_arithmetic"):
        load(1, Split.TRAIN, 0, families)


def test_a_data_set_that_cannot_be_made_is_named_with_its_fault() -> None:
    with pytest.raises(UnreadableSource, match="composite: Must specify at least one dataset"):
        load(1, Split.TRAIN, 0, ["composite"])


def test_without_the_package_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(PackageMissing, match="uv pip install reasoning-gym"):
        load(1, Split.TRAIN, 0, ["gcd"])
