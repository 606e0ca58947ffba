"""Questions with answers, as JSON lines: of GSM8K, FRAMES, Humanity's Last Exam, or a user's own.

The names of the fields differ between benchmarks: the first of each list that a line has counts.
The check follows from the answer: a number, one letter of a choice, a few words, or, for longer
answers, a judge. Without a judge those are left out, because nothing here could score them.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podium_kit.verifiers import InvalidVerifier
from podium_kit.verifiers.text import normalized, numbers
from podium_training.tasks.loaders.errors import BadLines, UnreadableSource
from podium_training.tasks.task import Split, Task

QUESTION = ("question", "Prompt", "prompt", "problem", "input")
ANSWER = ("answer", "Answer", "target", "ideal", "output")
ID = ("id", "index", "task_id")
FAMILY = ("family", "category", "raw_subject", "reasoning_types", "subject")
# Of GSM8K: the answer stands behind its derivation.
FINAL = "####"
WORDS_MAX = 3
NUMBER = re.compile(r"[^0-9A-Za-z]*[-+]?[0-9][0-9,]*(\.[0-9]+)?[^0-9A-Za-z]*")
CHOICE = "multipleChoice"


def load(path: Path, count: int, judges: Sequence[str] = ()) -> tuple[list[Task], int]:
    """The first items that can be checked, and how many were left out before them.

    All lines are read first. Raises UnreadableSource.
    """
    tasks: dict[str, Task] = {}
    faults: list[tuple[int, str]] = []
    left_out: list[int] = []
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise ValueError("not a JSON object")
            task = _task(path.stem, fields, judges)
            if task is None:
                left_out.append(len(tasks))
            elif task.id in tasks:
                raise ValueError(f"id {task.id} came before")
            else:
                tasks[task.id] = task
        except (ValueError, TypeError, RecursionError, InvalidVerifier) as error:
            faults.append((number, str(error)))
    if faults:
        raise BadLines(str(path), faults, "fix or drop these lines")
    if not tasks:
        cause = f"{path} has no question that can be checked"
        raise UnreadableSource(cause, "name a `judge`, a tool of kind llm")
    kept = list(tasks.values())[:count]
    return kept, sum(place < len(kept) or len(kept) < count for place in left_out)


def _task(benchmark: str, fields: Mapping[str, Any], judges: Sequence[str]) -> Task | None:
    question, answer = _text(fields, QUESTION), _text(fields, ANSWER)
    if not question or not answer:
        missing = "question" if not question else "answer"
        names = QUESTION if not question else ANSWER
        raise ValueError(f"it has no {missing}; name the field {' or '.join(names)}")
    # No tool here sees pictures, and a question without its picture is another one.
    check = None if fields.get("image") else _check(fields, answer, judges)
    if check is None:
        return None
    digest = hashlib.sha256(question.encode()).hexdigest()[:12]
    task = Task(
        id=f"{benchmark}/{_text(fields, ID) or digest}",
        family=(_text(fields, FAMILY) or benchmark)[:256],
        split=Split.HELD_OUT,
        question=question,
        verifier=check[0],
        parameters=check[1],
    )
    task.judge()
    return task


def _check(fields: Mapping[str, Any], answer: str, judges: Sequence[str]) -> tuple[str, Any] | None:
    final = answer.rpartition(FINAL)[2].strip() or answer
    if fields.get("answer_type") == CHOICE:
        return "exact", {"expected": final}
    return check_of(final, judges)


def check_of(final: str, judges: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
    """The verifier of answers like this one, and its parameters; None where it takes a judge."""
    if NUMBER.fullmatch(final) and len(found := numbers(final)) == 1:
        return "numeric", {"expected": f"{found[0]:f}"}
    if judges:
        return "llm", {"judges": list(judges), "reference": final}
    if 0 < len(normalized(final).split()) <= WORDS_MAX:
        return "contains", {"expected": final}
    return None


def _text(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value).strip()
    return ""


def _lines(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8") as file:
            # A question may hold what str.splitlines takes for the end of a line.
            return list(file)
    except (OSError, UnicodeError) as error:
        raise UnreadableSource(f"{path} cannot be read: {error}", "name a file of lines") from error
