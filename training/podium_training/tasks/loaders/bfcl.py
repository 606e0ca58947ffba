"""The cases of the Berkeley Function Calling Leaderboard that `bfcl-eval` carries.

For evaluation alone: a leaderboard whose cases were trained on measures nothing. The
functions of a case do not exist, so the answer is the calls that would be made, as JSON
(the benchmark's own prompting mode), judged by the benchmark's rules. Only the package's
files are read: its dependencies are many and would move others.
"""

import importlib.util
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from podium_training.tasks.loaders.errors import (
    BadLines,
    PackageMissing,
    UnknownFamily,
    UnreadableSource,
)
from podium_training.tasks.task import Split, Task

INSTALL = "uv pip install --no-deps bfcl-eval"
# Single-turn cases. The others need the benchmark's own simulators, or another language's values.
CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
)
QUESTION = """{conversation}

Functions:
{functions}

Answer with the calls that should be made, as a JSON list: \
[{{"name": "...", "arguments": {{...}}}}]. \
Leave out arguments that nobody asked for. If no function fits, answer []."""


def load(count: int, split: Split, families: Sequence[str]) -> list[Task]:
    if split is Split.TRAIN:
        raise UnreadableSource("BFCL's cases are for evaluation only", "use --split held-out")
    if unknown := [name for name in families if name not in CATEGORIES]:
        raise UnknownFamily(unknown[0], CATEGORIES)
    folder = _folder()
    tasks = [task for name in families or CATEGORIES for task in _category(folder, name)]
    return tasks[:count]


def _folder() -> Path:
    # Found, never imported: importing it would need its dependencies.
    found = importlib.util.find_spec("bfcl_eval")
    if found is None or not found.submodule_search_locations:
        raise PackageMissing("bfcl-eval", INSTALL)
    return Path(found.submodule_search_locations[0]) / "data"


def _category(folder: Path, name: str) -> list[Task]:
    cases = next(folder.glob(f"BFCL_v[0-9]_{name}.json"), None)
    if cases is None:
        raise UnreadableSource(f"bfcl-eval has no file of {name}", f"run `{INSTALL}`")
    answers_path = folder / "possible_answer" / cases.name
    # Where no call is right, there is no file of right calls.
    right = _lines(answers_path) if answers_path.exists() else ()
    answers = {answer["id"]: answer for _, answer in right}
    faults: list[tuple[int, str]] = []
    tasks: list[Task] = []
    for number, case in _lines(cases):
        try:
            tasks.append(_task(name, case, answers))
        except (KeyError, TypeError, ValueError) as error:
            faults.append((number, f"{type(error).__name__}: {error}"))
    if faults:
        raise BadLines(cases.name, faults, f"run `{INSTALL}`")
    return tasks


def _task(category: str, case: dict[str, Any], answers: dict[str, Any]) -> Task:
    irrelevant = category.endswith("irrelevance")
    expected = [] if irrelevant else answers[case["id"]]["ground_truth"]
    [messages] = case["question"]
    conversation = "\n".join(f"{each['role']}: {each['content']}" for each in messages)
    task = Task(
        id=f"bfcl/{case['id']}",
        family=f"bfcl/{category}",
        split=Split.HELD_OUT,
        question=QUESTION.format(
            conversation=conversation, functions="\n".join(map(json.dumps, case["function"]))
        ),
        verifier="function_calls",
        parameters={"expected": expected, "functions": list(map(_declared, case["function"]))},
    )
    task.judge()
    return task


def _declared(function: dict[str, Any]) -> dict[str, Any]:
    declared = function["parameters"]
    properties = declared["properties"]
    return {
        "name": function["name"],
        "types": {name: str(each.get("type", "")) for name, each in properties.items()},
        "items": {
            name: str(each["items"].get("type", ""))
            for name, each in properties.items()
            if isinstance(each.get("items"), dict)
        },
        "required": declared.get("required", []),
    }


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield number, json.loads(line)
            except ValueError as error:
                faults = [(number, f"not JSON: {error}")]
                raise BadLines(path.name, faults, f"run `{INSTALL}`") from error
