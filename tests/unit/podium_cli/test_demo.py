import socket
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from builders.report_pages import assert_self_contained, document_of
from podium.episodes.v1 import episode_pb2
from podium_cli.demo.accounts import Accounts, ToolSpend
from podium_cli.demo.report import report_of
from podium_cli.demo.solving import (
    Outcome,
    Solver,
    Task,
    accuracy,
    accuracy_by_kind,
    choose,
    load_tasks,
    tools_by_kind,
)
from podium_cli.demo.tables import called
from podium_cli.output import Output
from podium_cli.report_pages import write_report_page
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.gateway import Gateway, Unreachable
from podium_kit.money import Money
from podium_kit.verifiers import load_verifier
from podium_operations.documents import InvalidDocument

START = datetime(2025, 3, 1, 12, tzinfo=UTC)


def make_task(name: str = "sum", kind: str = "arithmetic") -> Task:
    return Task(name, kind, "What is 2 + 2?", load_verifier("numeric", {"expected": 4}), ("sum",))


def make_outcome(task: Task | None = None, right: bool = True, answer: str = "4") -> Outcome:
    return Outcome(
        task=task or make_task(),
        episode_id="0195f6a0-0000-7000-8000-000000000001",
        model="tiny-model",
        answer=answer,
        right=right,
        stop_reason="answered",
        tools_called=("calculator", "dictionary", "calculator"),
        failed_calls=1,
        turns=4,
        cost=Money(Decimal("0.000123"), "USD"),
        model_s=2.5,
        tools_s=0.1,
        start=START,
        end=START + timedelta(seconds=3),
    )


def make_accounts(ledger: str = "0.000123", trajectories: str = "0.000123") -> Accounts:
    spend = ToolSpend("calculator", 2, 0, Money(Decimal(ledger), "USD"))
    return Accounts((spend,), spend.cost, Money(Decimal(trajectories), "USD"))


def test_tasks_are_chosen_evenly_over_the_kinds() -> None:
    tasks = [make_task(f"{kind}{number}", kind) for kind in "abc" for number in range(3)]
    assert [task.id for task in choose(tasks, 5)] == ["a0", "b0", "c0", "a1", "b1"]


def test_choosing_more_tasks_than_there_are_takes_them_all() -> None:
    tasks = [make_task("a0", "a"), make_task("b0", "b"), make_task("b1", "b")]
    assert [task.id for task in choose(tasks, 9)] == ["a0", "b0", "b1"]


def test_the_bundled_tasks_are_enough_for_the_demo_and_accept_their_own_answers() -> None:
    tasks = load_tasks(bundled_folder() / "tasks")
    assert len(tasks) >= 24
    assert len({task.kind for task in tasks}) >= 8
    assert len({task.id for task in tasks}) == len(tasks)
    answers = [" and ".join(task.verifier.model_dump()["expected"]) for task in tasks]
    judged = [task.verifier.judge(answer) for task, answer in zip(tasks, answers, strict=True)]
    assert all(verdict.solved for verdict in judged)


def test_a_kind_is_offered_the_tools_that_solve_it_and_others_up_to_the_count() -> None:
    tasks = [make_task("a0", "a"), make_task("b0", "b")]
    offered = tools_by_kind(tasks, ["date", "sum", "unit", "word"], 3)
    assert offered == {"a": ("sum", "date", "unit"), "b": ("sum", "unit", "word")}


def test_a_tool_that_is_needed_is_offered_whatever_the_count() -> None:
    assert tools_by_kind([make_task()], ["date", "sum"], 1) == {"arithmetic": ("sum",)}


def test_a_file_that_holds_no_tasks_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("kind: arithmetic\ntasks: [{id: x}]")
    with pytest.raises(InvalidDocument, match=r"broken\.yaml"):
        load_tasks(tmp_path)


def test_accuracy_is_counted_per_kind_and_over_all() -> None:
    outcomes = [
        make_outcome(),
        make_outcome(right=False),
        make_outcome(make_task("word", "dictionary"), right=False),
    ]
    shares = {row.kind: row.share for row in accuracy_by_kind(outcomes)}
    assert shares == {"arithmetic": 0.5, "dictionary": 0.0}
    assert (accuracy("all", outcomes).right, accuracy("all", outcomes).total) == (1, 3)


def test_repeated_calls_are_counted() -> None:
    assert called(make_outcome()) == "calculator 2x, dictionary"


def test_accounts_that_differ_in_the_last_digit_do_not_agree() -> None:
    assert make_accounts().agree
    assert not make_accounts(ledger="0.000123000001").agree


def test_the_report_is_one_self_contained_page_that_escapes_answers(tmp_path: Path) -> None:
    page, evil = tmp_path / "report.html", "</script><script>alert(4)</script><!--"
    outcomes = [make_outcome(answer=evil), make_outcome(right=False)]
    write_report_page(page, report_of(outcomes, make_accounts(), 6, "http://127.0.0.1:1"))
    assert evil not in page.read_text()
    assert_self_contained(page)
    found = document_of(page)
    assert found["models"] == ["tiny-model"]
    first = found["tasks"][0]
    assert (first["answer"], first["right"]) == (evil, True)
    assert found["kinds"] == [{"kind": "arithmetic", "right": 1, "total": 2}]
    assert found["agree"] and first["start_s"] == 0


async def test_an_unreachable_gateway_is_one_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    async with Gateway(url, "key") as gateway:
        solver = Solver(
            gateway, Output(as_json=True), {"arithmetic": ()}, episode_pb2.EpisodeSpec()
        )
        with pytest.raises(Unreachable, match="no gateway answers"):
            await solver.solve([make_task()], 2, lambda task, line: None)
