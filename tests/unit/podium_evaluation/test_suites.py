import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from podium_evaluation.suites.questions import load
from podium_evaluation.suites.run_file import read_run_file
from podium_evaluation.suites.suite import comparability_key, load_suite
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.errors import UsageError
from podium_training.tasks.loaders.errors import BadLines, UnreadableSource


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    return path


GSM8K = {"question": "How many are 6 * 7?", "answer": "Six times seven.\n<<6*7=42>>\n#### 1,042"}
FRAMES = {"Prompt": "Who came first?", "Answer": "Ada Lovelace", "reasoning_types": "Temporal"}
LONG = {"id": 7, "question": "Why?", "answer": "Because of many things that nobody can score"}
CHOICE = {"id": "h1", "question": "A or B?", "answer": "B", "answer_type": "multipleChoice"}
PICTURE = {
    "id": "h2",
    "question": "What is shown?",
    "answer": "2",
    "image": "data:,",
}


def test_the_check_of_a_question_follows_from_its_answer(tmp_path: Path) -> None:
    path = lines(tmp_path / "mixed.jsonl", GSM8K, FRAMES, LONG, CHOICE, PICTURE)
    tasks, left_out = load(path, 100)
    assert [(task.verifier, task.parameters["expected"]) for task in tasks] == [
        ("numeric", "1042"),
        ("contains", "Ada Lovelace"),
        ("exact", "B"),
    ]
    assert left_out == 2
    assert [task.family for task in tasks] == ["mixed", "Temporal", "mixed"]
    assert tasks[2].id == "mixed/h1" and tasks[0].id.startswith("mixed/")
    judged, left_out = load(path, 100, judges=("ask_llm",))
    assert (judged[1].verifier, judged[2].parameters) == (
        "llm",
        {"judges": ["ask_llm"], "reference": LONG["answer"]},
    )
    assert left_out == 1, "a question without its picture is another one"


def test_a_number_within_words_is_no_number(tmp_path: Path) -> None:
    rows = [{"question": "q", "answer": answer, "id": answer} for answer in ("$ 12.50", "May 1967")]
    tasks, _ = load(lines(tmp_path / "q.jsonl", *rows), 9)
    assert [task.verifier for task in tasks] == ["numeric", "contains"]


def test_bad_lines_are_named_and_nothing_is_lost_silently(tmp_path: Path) -> None:
    path = lines(tmp_path / "q.jsonl", {"question": "q"}, ["a list"], GSM8K, GSM8K)
    with pytest.raises(BadLines) as error:
        load(path, 9)
    for words in ("line 1: it has no answer", "line 2: not a JSON object", "line 4: id q/"):
        assert words in str(error.value)
    with pytest.raises(UnreadableSource, match="no question that can be checked"):
        load(lines(tmp_path / "long.jsonl", LONG), 9)


def run_file(folder: Path, **changes: Any) -> Path:
    path = folder / "run.yaml"
    values = {"suite": {"families": ["arithmetic"], "count": 4}, "arms": [{"name": "a"}]}
    path.write_text(yaml.safe_dump({**values, "budget_usd": "1", **changes}))
    return path


def test_a_suite_has_the_same_items_and_key_every_time(tmp_path: Path) -> None:
    run = read_run_file(run_file(tmp_path))
    one, other = load_suite(run.suite), load_suite(run.suite)
    assert one.items() == other.items()
    key = comparability_key(one, run, {})
    assert key == comparability_key(other, run, {})
    assert (key["benchmark"], key["turn_limit"], key["judges"]) == ("families", "6", "none")
    assert key["verifiers"].startswith("numeric ")
    limited = read_run_file(run_file(tmp_path, trial_usd="0.01"))
    assert comparability_key(one, limited, {})["trial_usd"] == "0.01"


def test_a_file_that_has_not_its_digest_is_an_error_that_states_its_own(tmp_path: Path) -> None:
    path = lines(tmp_path / "q.jsonl", GSM8K)
    own = hashlib.sha256(path.read_bytes()).hexdigest()
    suite = {"from": "questions", "file": "q.jsonl", "digest": own}
    assert len(load_suite(read_run_file(run_file(tmp_path, suite=suite)).suite).tasks) == 1
    lines(path, GSM8K, FRAMES)
    with pytest.raises(UsageError, match="has not the digest") as error:
        load_suite(read_run_file(run_file(tmp_path, suite=suite)).suite)
    assert own not in error.value.fix and "restore the file" in error.value.fix


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget_usd": None}, "budget_usd"),
        ({"budget_usd": "1e-30"}, "budget_usd"),
        ({"arms": []}, "arms"),
        ({"arms": [{"name": "a"}, {"name": "a"}]}, "two arms are called a"),
        ({"arms": [{"name": "-"}]}, "arms.0.name"),
        ({"time_limit": "soon"}, "time_limit"),
        ({"suite": {"from": "tasks"}}, "`from: tasks` needs a `file`"),
        ({"suite": {"from": "families", "file": "tasks.jsonl"}}, "`file` is for"),
        ({"suite": {"from": "tau2", "domain": "mock"}}, "`from: tau2` needs a `user`"),
        ({"suite": {"from": "environment", "user": "a"}}, "`environment` is for"),
        ({"suite": {"digest": "d"}}, "`digest` is that of a file"),
        ({"repeats": 65}, "repeats"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_a_run_file_that_makes_no_sense_names_the_field(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as error:
        read_run_file(run_file(tmp_path, **changes))
    assert words in str(error.value)


def test_a_file_that_is_no_yaml_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    for text in ("a: [", "", "just words"):
        path.write_text(text)
        with pytest.raises(UsageError):
            read_run_file(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_run_file(tmp_path / "nothing.yaml")


@pytest.mark.parametrize("path", sorted((bundled_folder() / "suites").glob("*.yaml")))
def test_a_bundled_suite_is_read_and_within_its_budget(path: Path) -> None:
    run = read_run_file(path)
    suite = load_suite(run.suite)
    assert run.trial_usd is not None
    assert run.trial_usd * len(suite.tasks) * len(run.arms) * run.repeats <= run.budget_usd
