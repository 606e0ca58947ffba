import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from unit.bundled.library import LIBRARY
from unit.bundled.solutions import holds, result_of, verifier_of

BUNDLED = Path(__file__).resolve().parents[3] / "bundled"
TASKS: list[dict[str, Any]] = [
    task
    for path in sorted((BUNDLED / "tasks").glob("*.yaml"))
    for task in yaml.safe_load(path.read_text())["tasks"]
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: str(task["id"]))
async def test_solution_finds_the_answer(task: dict[str, Any]) -> None:
    results = [await result_of(call) for call in task["solution"]]
    assert holds(results[-1], task), results[-1]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: str(task["id"]))
def test_verifier_accepts_the_answer_and_rejects_another(task: dict[str, Any]) -> None:
    verifier = verifier_of(task)
    assert verifier.judge(", ".join(task["answer"])).solved
    assert not verifier.judge("I do not know.").solved
    assert not verifier.judge(task["question"]).solved


def test_tasks_are_many_and_of_many_kinds() -> None:
    ids = Counter(task["id"] for task in TASKS)
    assert max(ids.values()) == 1
    assert len(ids) >= 30
    assert len({task["id"].split("-")[0] for task in TASKS}) >= 8


def test_corpus_is_what_its_generator_writes(tmp_path: Path) -> None:
    written = tmp_path / "library.jsonl"
    subprocess.run([sys.executable, BUNDLED / "generate_corpus.py", written], check=True)
    assert written.read_bytes() == LIBRARY.read_bytes(), "run bundled/generate_corpus.py"


def test_corpus_has_distinct_documents() -> None:
    lines = LIBRARY.read_text(encoding="utf-8").splitlines()
    assert 150 <= len(lines) <= 300
    assert len({json.loads(line)["id"] for line in lines}) == len(lines)
