"""The verifier `function_calls` and the leaderboard's own checker give equal verdicts."""

import json
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from podium_training.tasks.loaders import bfcl
from podium_training.tasks.task import Split, Task

pytestmark = [pytest.mark.leaderboards, pytest.mark.timeout(900)]
PROGRAM = Path(__file__).with_name("with_bfcl.py")
CATEGORIES = [name for name in bfcl.CATEGORIES if not name.endswith("irrelevance")]
# Values of other types, and near ones of the same type, in place of a right one.
STRANGERS: tuple[Any, ...] = (
    *(None, True, 0, 1.5, -7, "", "a text that no case expects"),
    *([], [1], {}, {"a": 1}),
)

Calls = list[dict[str, Any]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bfcl") / "env"
    uv = str(Path(sys.executable).parent / "uv")
    install = ("pip", "install", "--quiet", "--no-deps", "--python", str(folder), "bfcl-eval")
    for command in (("venv", "--quiet", "--python", sys.executable, str(folder)), install):
        subprocess.run((uv, *command), check=True)
    return folder / "bin" / "python"


def test_every_output_is_judged_as_the_leaderboard_judges_it(
    python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [packages] = (python.parent.parent / "lib").glob("python*/site-packages")
    monkeypatch.syspath_prepend(str(packages))
    asked, ours = [], []
    for category in CATEGORIES:
        functions = declared(packages, category)
        for task in bfcl.load(10_000, Split.HELD_OUT, [category]):
            verifier = task.judge()
            for calls in outputs(task):
                written = [{"name": name, "arguments": a} for c in calls for name, a in c.items()]
                ours.append(verifier.judge(json.dumps(written)).solved)
                asked.append(
                    {
                        "category": category,
                        "functions": functions[task.id],
                        "expected": task.parameters["expected"],
                        "output": calls,
                    }
                )
    theirs = checked(python, asked)
    different = [
        each for each, mine, other in zip(asked, ours, theirs, strict=True) if mine != other
    ]
    assert not different, f"{len(different)} of {len(asked)}, first: {json.dumps(different[0])}"
    # Neither always says the same.
    assert len(asked) > 30_000
    assert 0.1 < sum(ours) / len(ours) < 0.9


def declared(packages: Path, category: str) -> dict[str, Any]:
    [path] = (packages / "bfcl_eval" / "data").glob(f"BFCL_v[0-9]_{category}.json")
    cases = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {f"bfcl/{case['id']}": case["function"] for case in cases}


def checked(python: Path, asked: list[dict[str, Any]]) -> list[bool]:
    lines = "".join(f"{json.dumps(each)}\n" for each in asked)
    done = subprocess.run(
        (str(python), str(PROGRAM)), input=lines, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def outputs(task: Task) -> Iterator[Calls]:
    """Right calls, and calls that differ from them in one respect."""
    first = [chosen(wanted, 0) for wanted in task.parameters["expected"]]
    yield first
    yield [chosen(wanted, -1) for wanted in task.parameters["expected"]]
    yield first[::-1]
    yield first[:-1]
    yield [*first, first[0]]
    for at, call in enumerate(first):
        [(name, arguments)] = call.items()
        yield replaced(first, at, {f"{name}_": arguments})
        yield replaced(first, at, {name: {**arguments, "unexpected": 1}})
        for number, (argument, value) in enumerate(arguments.items()):
            others = {key: other for key, other in arguments.items() if key != argument}
            yield replaced(first, at, {name: others})
            for other in (*changed(value), STRANGERS[(number + len(task.id)) % len(STRANGERS)]):
                yield replaced(first, at, {name: {**arguments, argument: other}})


def chosen(wanted: dict[str, dict[str, list[Any]]], place: int) -> dict[str, Any]:
    """The call with the first or the last allowed value of every argument that has one."""
    [(name, arguments)] = wanted.items()
    given = {}
    for argument, allowed in arguments.items():
        values = [each for each in allowed if each != ""]
        if values:
            given[argument] = within(values[place])
    return {name: given}


def within(value: Any) -> Any:
    """An answer's nested object holds lists of allowed values."""
    if isinstance(value, dict):
        return {
            key: next((e for e in each if e != ""), "") if isinstance(each, list) else each
            for key, each in value.items()
        }
    return [within(each) for each in value] if isinstance(value, list) else value


def changed(value: Any) -> Iterator[Any]:
    match value:
        case bool():
            yield from (not value, int(value), str(value))
        case int():
            yield from (float(value), value + 1, str(value))
        case float():
            yield from (int(value), value + 0.5, str(value))
        case str():
            yield from (value.upper(), f"{value}.", f"{value} x", [value])
        case list():
            yield from (value[::-1], value[:-1], [*value, *value], [str(each) for each in value])
        case dict() if value:
            key = next(iter(value))
            yield {name: each for name, each in value.items() if name != key}
            yield {**value, key: "a text that no case expects"}
            yield {**value, "unexpected": 1}


def replaced(calls: Calls, at: int, call: dict[str, Any]) -> Calls:
    copy = deepcopy(calls)
    copy[at] = call
    return copy
