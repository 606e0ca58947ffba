from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from podium_kit.client.errors import UsageError
from podium_training.tasks.files import read_tasks
from podium_training.tasks.kinds import FOLDER, InvalidPhrasings, kinds, read_kinds
from podium_training.tasks.task import Split, Task
from podium_training.tasks.taskset import FAMILIES

VALID = {
    "slots": {"a": "a number such as 3", "b": "a number such as 4"},
    "asks": "The sum of two numbers.",
    "train": ["What is {a} plus {b}?"],
    "held_out": ["Add {a} and {b}."],
}


def write_kinds(folder: Path, **content: object) -> Path:
    path = folder / "sums.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def test_every_family_has_its_file_and_every_file_its_family() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_phrasing_shows_all_that_its_slots_are_filled_with(family: str) -> None:
    for kind in kinds(family).values():
        filled = {slot: f"<{slot}>" for slot in kind.slots}
        for phrasing in kind.train + kind.held_out:
            assert all(value in phrasing.format(**filled) for value in filled.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kind_is_asked_in_forty_ways(family: str) -> None:
    assert not {
        name: len(each.train) for name, each in kinds(family).items() if len(each.train) < 40
    }


def test_no_phrasing_is_in_two_families() -> None:
    known = Counter(
        phrasing
        for family in FAMILIES
        for kind in kinds(family).values()
        for phrasing in kind.train + kind.held_out
        if kind.slots
    )
    assert not [phrasing for phrasing, count in known.items() if count > 1]


def test_a_valid_file_is_read(tmp_path: Path) -> None:
    assert list(read_kinds(write_kinds(tmp_path, sum=VALID))) == ["sum"]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"train": ["What is {a} plus {c}?"]}, r"\{c\}\?': no slot is called c; the kind has a, b"),
        ({"train": ["What is {a} plus?"]}, r"plus\?': it lacks \{b\}"),
        ({"train": ["What is {a plus {b}?"]}, r"\{a plus \{b\}\?': .*write \{\{ and \}\}"),
        ({"train": ["add {a} and  {b}."]}, "kind sum has it already"),
        ({"train": []}, "train"),
        ({"asks": ""}, "asks"),
        ({"heldout": ["{a} + {b}"]}, "heldout"),
    ],
)
def test_a_fault_is_rejected_by_file_and_kind(
    tmp_path: Path, changed: dict[str, object], fault: str
) -> None:
    with pytest.raises(InvalidPhrasings, match=rf"(?s)sums\.yaml, kind sum\b.*{fault}"):
        read_kinds(write_kinds(tmp_path, sum=VALID | changed))


def test_a_phrasing_of_two_kinds_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidPhrasings, match=r"kind total, phrasing .*kind sum has it already"):
        read_kinds(write_kinds(tmp_path, sum=VALID, total=VALID))


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
