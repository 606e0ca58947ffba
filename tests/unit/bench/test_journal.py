from pathlib import Path

from bench.orchestrators.journal import Journal
from podium_training.tasks.task import Split, Task
from unit.bench.test_orchestrators import make_episode

ARMS = ("expert", "small", "lost")
TASKS = [
    Task(f"t{number}", "sums", Split.HELD_OUT, f"{number}?", "numeric", {"expected": "42"}, ())
    for number in range(3)
]
ASKED = {"count": 2, "policy": "policy-default-v2"}


def test_the_same_question_resumes_and_another_starts_over(tmp_path: Path) -> None:
    path = tmp_path / "build" / "episodes.jsonl"
    journal = Journal(path, ASKED)
    journal.add("small", "cost-first", make_episode(1, 1.0, "0.0004", 2.5))
    again = Journal(path, ASKED)
    found = again.results(ARMS, "cost-first", TASKS)
    assert found["small"][0].score == 1.0 and found["small"][0].family == "sums"
    assert found == journal.results(ARMS, "cost-first", TASKS)
    assert again.has("small", "cost-first", "t1")
    assert not again.has("small", "speed-first", "t1")
    assert not Journal(path, ASKED | {"count": 3}).has("small", "cost-first", "t1")


def test_arms_are_compared_on_tasks_that_all_who_began_have_done(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "episodes.jsonl", ASKED)
    assert journal.results(ARMS, "cost-first", TASKS) == {}
    for task in range(3):
        journal.add("expert", "cost-first", make_episode(task, 1.0, "0.04", 4.0))
    for task in (2, 1):
        journal.add("small", "cost-first", make_episode(task, 0.0, "0.0004", 2.0))
    found = journal.results(ARMS, "cost-first", TASKS)
    done = {arm: [each.item_id for each in episodes] for arm, episodes in found.items()}
    assert done == {"expert": ["t1", "t2"], "small": ["t1", "t2"]}
