"""Lines in the paper's own format (ToolOrchestra, data of the released code: one JSON per line).

Of category qa the problem and its answer become a task. The other fields describe the paper's
environment: `tools`, `model_mapping`, `tool_pricing` and `pref_vec` name its experts, where here
tools, prices and preferences are the tenant's. Category func_call is a simulated conversation
with a user, which is no single question, so such a line is rejected.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from podium_kit.verifiers import InvalidVerifier
from podium_kit.verifiers.text import numbers
from podium_training.tasks.loaders.errors import BadLines, UnknownFamily, UnreadableSource
from podium_training.tasks.splits import split_of
from podium_training.tasks.task import Split, Task

QA, FUNCTION_CALL = "qa", "func_call"
CATEGORIES = (QA, FUNCTION_CALL)


class PaperLine(BaseModel):
    """A line's fields, as the released loader reads them."""

    model_config = ConfigDict(extra="allow", frozen=True)

    index: str = Field(min_length=1, coerce_numbers_to_str=True)
    category: str
    problem: str = Field(min_length=1)
    answer: str = Field(min_length=1, coerce_numbers_to_str=True)
    tools: list[dict[str, Any]] = []
    """OpenAI function objects."""
    model_mapping: dict[str, str] = {}
    """Model by alias."""
    tool_pricing: dict[str, Any] = {}
    """Dollars per million tokens, by model."""
    pref_vec: dict[str, float] = {}
    """Weight by alias, and of accuracy, cost and latency."""


def load(
    path: Path, count: int, split: Split, families: Sequence[str], judges: Sequence[str]
) -> list[Task]:
    """Up to `count` tasks of the split; all lines are checked first. Raises UnreadableSource.

    `judges` are tools of kind llm that compare answers, as the paper's judge does; without
    any an answer must be the same number or the same words.
    """
    if unknown := [name for name in families if name not in CATEGORIES]:
        raise UnknownFamily(unknown[0], CATEGORIES)
    tasks: dict[str, Task] = {}
    faults: list[tuple[int, str]] = []
    for number, line in enumerate(_lines(path), start=1):
        try:
            read = PaperLine.model_validate_json(line)
            if families and read.category not in families:
                continue
            task = _task(read, judges)
            if task.id in tasks:
                raise ValueError(f"index {read.index} came before")
            tasks[task.id] = task
        except ValidationError as error:
            faults.append((number, _faults(error)))
        except (ValueError, InvalidVerifier) as error:
            faults.append((number, str(error)))
    if faults:
        raise BadLines(str(path), faults, "fix or drop these lines")
    return [task for task in tasks.values() if task.split is split][:count]


def _lines(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8") as file:
            # Problems are prose, and str.splitlines ends a line at some characters of prose.
            return list(file)
    except (OSError, UnicodeError) as error:
        raise UnreadableSource(f"{path} cannot be read: {error}", "name a file of lines") from error


def _task(line: PaperLine, judges: Sequence[str]) -> Task:
    if line.category == FUNCTION_CALL:
        raise ValueError("category func_call needs a simulated user; --family qa leaves it out")
    if line.category != QA:
        raise ValueError(f"category {line.category!r} is neither {' nor '.join(CATEGORIES)}")
    verifier, parameters = _check(line.answer, judges)
    task = Task(
        id=f"paper/{line.index}",
        family=f"paper/{line.category}",
        split=split_of(line.problem),
        question=line.problem,
        verifier=verifier,
        parameters=parameters,
    )
    task.judge()
    return task


def _check(answer: str, judges: Sequence[str]) -> tuple[str, dict[str, Any]]:
    if judges:
        return "llm", {"judges": list(judges), "reference": answer}
    is_number = len(numbers(answer)) == 1 and not any(map(str.isalpha, answer))
    return "numeric" if is_number else "exact", {"expected": answer}


def _faults(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'line'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)
    )
