import json
from pathlib import Path
from typing import Any

import pytest

from podium_training.tasks.loaders.bfcl import load
from podium_training.tasks.loaders.errors import PackageMissing, UnreadableSource
from podium_training.tasks.task import Split

FUNCTION = {
    "name": "triangle.area",
    "description": "Area of a triangle.",
    "parameters": {
        "type": "dict",
        "properties": {"base": {"type": "integer"}, "unit": {"type": "string"}},
        "required": ["base"],
    },
}
EXPECTED = [{"triangle.area": {"base": [10], "unit": ["units", ""]}}]


def case(name: str, function: dict[str, Any] = FUNCTION) -> dict[str, Any]:
    question = [[{"role": "user", "content": f"What is the area of {name}?"}]]
    return {"id": name, "question": question, "function": [function]}


def write(path: Path, *lines: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    data = tmp_path / "bfcl_eval" / "data"
    write(data / "BFCL_v4_simple_python.json", case("simple_python_0"), case("simple_python_1"))
    # Its name ends as the other's does.
    write(data / "BFCL_v4_live_simple_python.json", case("elsewhere"))
    answers = [{"id": f"simple_python_{n}", "ground_truth": EXPECTED} for n in range(2)]
    write(data / "possible_answer" / "BFCL_v4_simple_python.json", *answers)
    write(data / "BFCL_v4_irrelevance.json", case("irrelevance_0"))
    (tmp_path / "bfcl_eval" / "__init__.py").write_text("raise ImportError('no dependencies')")
    monkeypatch.syspath_prepend(str(tmp_path))
    return data


@pytest.mark.usefixtures("data")
def test_a_case_asks_for_the_calls_and_accepts_those_the_benchmark_accepts() -> None:
    [first, second] = load(9, Split.HELD_OUT, ["simple_python"])
    assert (first.id, second.id) == ("bfcl/simple_python_0", "bfcl/simple_python_1")
    assert "area of simple_python_0" in first.question
    assert json.dumps(FUNCTION) in first.question
    right = [{"name": "triangle.area", "arguments": {"base": 10}}]
    assert first.judge().judge(json.dumps(right)).solved
    assert not first.judge().judge("[]").solved


@pytest.mark.usefixtures("data")
def test_where_no_function_fits_a_call_is_wrong() -> None:
    [task] = load(9, Split.HELD_OUT, ["irrelevance"])
    assert task.judge().judge("[]").solved
    assert not task.judge().judge('[{"name": "triangle.area", "arguments": {}}]').solved


@pytest.mark.usefixtures("data")
def test_cases_are_rejected_as_something_to_learn_from() -> None:
    with pytest.raises(UnreadableSource, match="evaluation only; use --split held-out"):
        load(1, Split.TRAIN, ["simple_python"])


@pytest.mark.usefixtures("data")
def test_only_single_turn_categories_are_known() -> None:
    with pytest.raises(UnreadableSource, match="no family 'multi_turn_base'; use simple_python"):
        load(1, Split.HELD_OUT, ["multi_turn_base"])


def test_a_case_without_its_answer_is_named_with_its_line(data: Path) -> None:
    write(data / "BFCL_v4_simple_python.json", case("simple_python_0"), case("simple_python_7"))
    with pytest.raises(UnreadableSource, match=r"line 2: KeyError: 'simple_python_7'"):
        load(1, Split.HELD_OUT, ["simple_python"])


def test_a_truncated_file_is_named_with_its_line(data: Path) -> None:
    (data / "BFCL_v4_irrelevance.json").write_text(json.dumps(case("x"))[:-5])
    with pytest.raises(UnreadableSource, match="line 1: not JSON"):
        load(1, Split.HELD_OUT, ["irrelevance"])


def test_without_the_package_the_command_that_installs_it_is_named() -> None:
    with pytest.raises(PackageMissing, match="uv pip install --no-deps bfcl-eval"):
        load(1, Split.HELD_OUT, ["multiple"])
