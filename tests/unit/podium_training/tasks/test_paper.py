import json
from pathlib import Path
from typing import Any

import pytest

from podium_training.tasks.loaders.errors import UnreadableSource
from podium_training.tasks.loaders.paper import load
from podium_training.tasks.task import Split


def line(number: int, **fields: Any) -> dict[str, Any]:
    made = {
        "index": f"general-{number}",
        "category": "qa",
        "problem": f"What is {number} plus 1?",
        "answer": str(number + 1),
        "tools": [{"type": "function", "function": {"name": "answer", "parameters": {}}}],
        "model_mapping": {"answer-1": "gpt-5"},
        "tool_pricing": {"gpt-5": {"input_tokens_per_million": 1.25}},
        "pref_vec": {"answer-1": 0.5, "accuracy": 1, "cost": 0.2, "latency": 0},
    }
    return made | fields


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "data.jsonl"
    written = (each if isinstance(each, str) else json.dumps(each) for each in lines)
    path.write_text("\n".join(written))
    return path


def test_every_line_is_a_task_of_one_split(tmp_path: Path) -> None:
    path = write(tmp_path, *map(line, range(60)))
    train = load(path, 100, Split.TRAIN, [], ())
    held_out = load(path, 100, Split.HELD_OUT, [], ())
    assert len({task.id for task in train + held_out}) == len(train + held_out) == 60
    assert {task.split for task in held_out} == {Split.HELD_OUT}
    assert len(held_out) > 0
    assert load(path, 5, Split.TRAIN, [], ()) == train[:5]


def test_a_line_ends_where_the_file_says(tmp_path: Path) -> None:
    problem = "What is\u2028one\x85and one?"
    path = write(tmp_path, json.dumps(line(1, problem=problem), ensure_ascii=False))
    [task] = [task for split in Split for task in load(path, 9, split, [], ())]
    assert task.question == problem


def test_numbers_are_compared_by_value_and_words_as_words(tmp_path: Path) -> None:
    path = write(tmp_path, line(1), line(2, answer="Mount Kenya"), line(3, answer="vitamin B12"))
    [number, words, both] = sorted(
        load(path, 9, Split.TRAIN, [], ()) + load(path, 9, Split.HELD_OUT, [], ()),
        key=lambda task: task.id,
    )
    assert number.judge().judge("It is 2.0").solved
    assert words.judge().judge("mount kenya").solved
    assert not both.judge().judge("12").solved


def test_a_judge_compares_with_the_reference(tmp_path: Path) -> None:
    path = write(tmp_path, line(1))
    [task] = [task for split in Split for task in load(path, 9, split, [], ("ask_llm",))]
    assert task.verifier == "llm"
    assert task.parameters == {"judges": ["ask_llm"], "reference": "2"}


def test_all_bad_lines_are_reported_at_once_and_nothing_is_loaded(tmp_path: Path) -> None:
    lines = [line(0), "{", line(1, answer=""), line(0), line(2, category="poem")]
    with pytest.raises(UnreadableSource) as rejected:
        load(write(tmp_path, *lines), 9, Split.TRAIN, [], ())
    told = str(rejected.value)
    assert "line 2: line: Invalid JSON" in told
    assert "line 3: answer: String should have at least 1 character" in told
    assert "line 4: index general-0 came before" in told
    assert "line 5: category 'poem' is neither qa nor func_call" in told


def test_simulated_conversations_are_rejected_unless_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, line(1), line(2, category="func_call", example={"id": "retail_1"}))
    with pytest.raises(UnreadableSource, match=r"line 2: .*--family qa leaves it out"):
        load(path, 9, Split.TRAIN, [], ())
    assert sum(len(load(path, 9, split, ["qa"], "")) for split in Split) == 1


def test_many_bad_lines_are_counted(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match=r"has 8 bad lines\n(.*\n){5}and 3 more"):
        load(write(tmp_path, *["{"] * 8), 9, Split.TRAIN, [], ())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match="nosuch"):
        load(tmp_path / "nosuch", 9, Split.TRAIN, [], ())
