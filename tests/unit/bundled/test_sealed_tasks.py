import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import yaml

from podium_cli.demo.solving import Outcome, Task, tasks_of
from podium_kit.bundled_files import bundled_folder
from podium_kit.verifiers import load_verifier
from podium_kit.verifiers.text import normalized
from podium_training.tasks.kinds import kinds
from podium_training.tasks.task import Split
from podium_training.tasks.taskset import FAMILIES, generate
from sealed.archive import ARCHIVE, sealed_documents
from sealed.results import is_logged, row
from unit.bundled.solutions import holds, result_of, verifier_of

FIELDS = [task for document in sealed_documents() for task in document["tasks"]]
GENERATED = 240
# A phrasing with fewer words of its own matches whatever is short.
OWN_WORDS_MIN = 3
SLOT = "slotslot"
SLOT_WORDS = r"\S+(?: \S+){0,3}"


def masked(question: str) -> str:
    return re.sub(r"\d+", "0", normalized(question))


def phrasings() -> Iterator[str]:
    for family in FAMILIES:
        for kind in kinds(family).values():
            for split in Split:
                for phrasing in kind.phrasings(split):
                    yield normalized(re.sub(r"\{\w+\}", f" {SLOT} ", phrasing))


def follows(question: str, phrasing: str) -> bool:
    own = {word for word in phrasing.split() if word != SLOT}
    if len(own) < OWN_WORDS_MIN or not own <= set(question.split()):
        return False
    return re.fullmatch(re.escape(phrasing).replace(SLOT, SLOT_WORDS), question) is not None


def bundled_questions() -> Iterator[str]:
    for path in (bundled_folder() / "tasks").glob("*.yaml"):
        yield from (task["question"] for task in yaml.safe_load(path.read_text())["tasks"])
    for path in (bundled_folder() / "tools").glob("*.yaml"):
        yield from yaml.safe_load(path.read_text())["exampleTasks"]


def test_the_archive_holds_tasks_of_the_demo() -> None:
    tasks = [task for document in sealed_documents() for task in tasks_of(document)]
    assert len({task.id for task in tasks}) == len(tasks) == 60
    tools = {path.stem for path in (bundled_folder() / "tools").glob("*.yaml")}
    assert {tool for task in tasks for tool in task.tools} == tools
    assert sum(len(task.tools) > 1 for task in tasks) >= 5


def test_the_archive_is_the_same_whenever_it_is_written() -> None:
    flags, *written = ARCHIVE.read_bytes()[3:8]
    assert (flags, written) == (0, [0, 0, 0, 0]), "pack it with gzip --no-name"


async def test_every_solution_finds_the_answer() -> None:
    unsolved = [task["id"] for task in FIELDS if not await solved(task)]
    assert unsolved == []


async def solved(task: dict[str, Any]) -> bool:
    try:
        return holds([await result_of(call) for call in task["solution"]][-1], task)
    except Exception:  # noqa: BLE001  a traceback would show the task
        return False


def test_every_verifier_accepts_the_answer_and_rejects_the_question() -> None:
    unfit = []
    for task in FIELDS:
        verifier = verifier_of(task)
        wrong = ("I do not know.", task["question"])
        if not verifier.judge(", ".join(task["answer"])).solved or any(
            verifier.judge(answer).solved for answer in wrong
        ):
            unfit.append(task["id"])
    assert unfit == []


def test_no_question_is_a_bundled_one() -> None:
    known = {masked(question) for question in bundled_questions()}
    assert len(known) > 100
    assert [task["id"] for task in FIELDS if masked(task["question"]) in known] == []


@pytest.mark.parametrize("split", Split)
def test_no_question_is_a_generated_one(split: Split) -> None:
    known = {masked(task.question) for task in generate(GENERATED, split)}
    assert [task["id"] for task in FIELDS if masked(task["question"]) in known] == []


def test_no_question_follows_a_phrasing_of_training() -> None:
    questions = {task["id"]: normalized(task["question"]) for task in FIELDS}
    found = {
        task_id
        for phrasing in phrasings()
        for task_id, question in questions.items()
        if follows(question, phrasing)
    }
    assert found == set()


def test_a_question_follows_a_phrasing_whatever_fills_its_slots() -> None:
    phrasing = f"please tell me {SLOT} in {SLOT}"
    assert follows("please tell me 3 old miles in km", phrasing)
    assert not follows("please tell me now what 3 miles are in km", phrasing)
    assert not follows("3 miles in km", f"{SLOT} in {SLOT}")


def test_the_row_tells_totals_and_nothing_of_a_task() -> None:
    outcomes = [outcome("codes-01", True), outcome("codes-02", False)]
    written = row("1.2.3", "abc1234", date(2026, 3, 1), outcomes)
    expected = "| 1.2.3 | abc1234 | 2026-03-01 | tiny | 1 of 2 | 50% | 3.0 s | codes 1/2 |"
    assert written == expected


def test_a_release_with_a_row_is_known() -> None:
    readme = "| release | commit |\n|---|---|\n| 1.2.3 | abc1234 |\n"
    assert is_logged("1.2.3", readme)
    assert not is_logged("1.2", readme)


def outcome(task_id: str, right: bool) -> Outcome:
    verifier = load_verifier("contains", {"expected": "sesame"})
    start = datetime(2026, 3, 1, tzinfo=UTC)
    return Outcome(
        task=Task(task_id, "codes", "What opens the cave?", verifier, ("dictionary",)),
        episode_id="0195f6a0-0000-7000-8000-000000000001",
        model="tiny",
        answer="sesame" if right else "barley",
        right=right,
        stop_reason="answered",
        tools_called=("dictionary",),
        failed_calls=0,
        turns=2,
        cost=None,
        model_s=1.0,
        tools_s=0.1,
        start=start,
        end=start + timedelta(seconds=3),
    )
