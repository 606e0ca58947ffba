import csv
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from typer.testing import CliRunner

from podium.ledger.v1 import audit_pb2
from podium.ledger.v1 import budget_service_pb2 as budgets_pb2
from podium.registry.v1 import policy_pb2, policy_service_pb2
from podium_cli.app import app
from podium_cli.audit.table_files import write_table
from podium_cli.formats import format_money, format_seconds
from podium_cli.listing import listing
from podium_cli.output import Output
from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway
from podium_kit.money import Money
from podium_kit.text import format_bytes, one_line
from podium_operations.controller.exporting import exported

# A pattern, a path of Windows, a closing tag of nothing, a name of a route.
TEXTS = [r"^\[a-z\]+$", r"C:\dir\[b]file", r"\[/x]", "[/x]", "[slug]/page.md", "end\\", "user:bug:"]


@pytest.mark.parametrize("text", TEXTS)
def test_errors_notes_and_results_keep_brackets(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(as_json=False)
    output.error(UserError(text, f"not {text}"))
    output.note(f"[dim]{escape(text)}[/]")
    output.result({}, text)
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [f"error: {text}", f" fix: not {text}", text]
    assert printed.out == f"{text}\n"


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        ("0.000000150000", "USD", "$0.00000015"),
        ("12.50", "EUR", "€12.5"),
        ("100", "USD", "$100"),
        ("0", "USD", "$0"),
        ("3.1", "CHF", "3.1 CHF"),
        ("-0.5", "USD", "-$0.5"),
    ],
)
def test_money_is_shown_to_its_last_digit(amount: str, currency: str, shown: str) -> None:
    assert format_money(Money(Decimal(amount), currency)) == shown


def test_an_unknown_cost_is_not_zero() -> None:
    assert format_money(None) == "unknown"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0124, "12 ms"),
        (3.44, "3.4 s"),
        (59.9, "59.9 s"),
        (125, "2 min 05 s"),
        (3725, "1 h 02 min"),
    ],
)
def test_time_is_shown_in_the_unit_people_would_choose(seconds: float, shown: str) -> None:
    assert format_seconds(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"), [(12, "12 B"), (81_200, "81 kB"), (2_500_000_000, "2.5 GB")]
)
def test_memory_is_shown_in_decimal_units(size: int, shown: str) -> None:
    assert format_bytes(size) == shown


def test_long_text_becomes_one_line_that_says_it_was_cut() -> None:
    assert one_line("a\n b   c", 10) == "a b c"
    assert one_line("x" * 11, 10) == "x" * 9 + "…"


COLUMNS = ("sku", "model", "cost#")
ROWS = [("orchestrator/scripted-model", "scripted-model", "$0.000000000001")]


def shown(table: object, width: int, terminal: bool = True) -> str:
    console = Console(width=width, force_terminal=terminal, color_system=None)
    with console.capture() as capture:
        console.print(table, crop=terminal)
    return capture.get()


def test_a_wide_terminal_shows_every_column() -> None:
    text = shown(listing(COLUMNS, ROWS, ("model",)), 100)
    assert "scripted-model" in text.replace("orchestrator/scripted-model", "")
    assert "left out" not in text


def test_a_narrow_one_names_what_it_leaves_out() -> None:
    text = shown(listing(COLUMNS, ROWS, ("model",)), 50)
    assert text.splitlines()[0].split() == ["sku", "cost"]
    assert "left out to fit the terminal: model" in " ".join(text.split())


def test_a_number_is_never_split() -> None:
    assert "$0.000000000001" in shown(listing(COLUMNS, ROWS), 30)


def test_a_table_without_names_has_no_line_for_them() -> None:
    assert shown(listing(("", ""), [("a", "b")]), 30).strip().split() == ["a", "b"]
    assert len(shown(listing(("", ""), [("a", "b")]), 30).splitlines()) == 1


EPISODES = (
    ("episode", "started", "state", "turns#", "cost#", "task…"),
    [
        (
            "01998c5e-5a52-7cc1-b4a4-1f7c52a5a1c7",
            "2026-10-31 09:30:12",
            "answered",
            "3",
            "$0.0000125",
            "How many days are between 1 March and 24 December 2025?",
        )
    ],
)


@pytest.mark.parametrize("width", [50, 80, 100, 160])
def test_words_stay_whole_whatever_the_width(width: int) -> None:
    columns, rows = EPISODES
    text = shown(listing(columns, rows), width)
    shown_words = set(text.split())
    for cell in rows[0][:-1]:
        assert set(cell.split()) <= shown_words
    assert all(cell_len(line) <= width for line in text.splitlines())


def test_a_text_that_is_cut_is_cut_between_words() -> None:
    text = shown(listing(("name", "text…"), [("a", "several words that do not fit")]), 24)
    assert text.splitlines()[1].rstrip() == "a     several words …"


def test_rows_that_cannot_stand_side_by_side_become_blocks() -> None:
    lines = shown(listing(*EPISODES), 50).splitlines()
    assert lines[0].split() == ["episode", "01998c5e-5a52-7cc1-b4a4-1f7c52a5a1c7"]
    assert lines[3].split() == ["turns", "3"]


def test_a_pipe_gets_all_of_it_separated_by_tabs() -> None:
    columns, rows = EPISODES
    text = shown(listing(columns, rows, ("task…",)), 40, terminal=False)
    assert [line.split("\t") for line in text.splitlines()] == [
        ["episode", "started", "state", "turns", "cost", "task"],
        list(rows[0]),
    ]


class Registered(Gateway):
    def __init__(self, policies: list[str], budgets: list[str]) -> None:
        self.policies, self.budgets = policies, budgets

    async def all(self, path: str, reply: Any, **query: Any) -> Any:
        found = reply()
        if isinstance(found, policy_service_pb2.ListPoliciesResponse):
            specs = [policy_pb2.PolicySpec(name=name) for name in self.policies]
            found.policies.extend(policy_pb2.Policy(spec=spec) for spec in specs)
        if isinstance(found, budgets_pb2.ListBudgetsResponse):
            budgets = [budgets_pb2.Budget(id=name) for name in self.budgets]
            found.statuses.extend(
                budgets_pb2.BudgetStatus(budget=each, limit=each.hard_limit) for each in budgets
            )
        return found


async def test_names_that_differ_are_objects_of_different_names() -> None:
    platform = Registered(["a_b", "a-b"], ["team/x", "Team X", "team-x", "own"])
    objects = await exported(platform)
    names = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(names)) == len(objects) == 6
    assert ("Policy", "a-b") in names and ("Budget", "team-x") in names
    said = [each["spec"].get("name") or each["spec"].get("id") for each in objects]
    assert said == ["a_b", None, "team/x", "Team X", None, None]


async def test_a_name_that_is_taken_once_has_no_digest() -> None:
    [policy] = await exported(Registered(["a_b"], []))
    assert policy["metadata"]["name"] == "a-b"


# A process that gets this far has begun.
NOWHERE = ["--url", "http://127.0.0.1:1", "--api-key", "key"]
ROLLOUT = ["train", "rollout", "--count", "1", "--evaluation"]


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (ROLLOUT, "."),
        (ROLLOUT, "no such folder/evaluation.jsonl"),
        (["demo", "--report"], "."),
        (["demo", "--report"], "file/report.html"),
    ],
)
def test_a_place_that_is_none_is_rejected_first(
    tmp_path: Path, command: list[str], place: str
) -> None:
    (tmp_path / "file").write_text("")
    ended = CliRunner().invoke(app, [*command, str(tmp_path / place), *NOWHERE])
    assert ended.exit_code == 2, ended.stderr
    assert "cannot" in ended.stderr


TEXT = audit_pb2.ExportColumn(name="team", kind=audit_pb2.EXPORT_COLUMN_KIND_TEXT)
MONEY = audit_pb2.ExportColumn(name="amount", kind=audit_pb2.EXPORT_COLUMN_KIND_MONEY)
ATTACKS = (
    '=HYPERLINK("http://evil.example")',
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    " =1",
    "\u00a0=1",
    "\uff1d1",
    "|cmd",
    "'=1",
)
BEGINNINGS = "=+-@|%\t\r\uff1d\uff0b\uff0d\uff20"


@given(texts=st.lists(st.one_of(st.sampled_from(ATTACKS), st.text(max_size=9)), min_size=1))
def test_texts_are_neutralised_reversibly_and_amounts_stay_numbers(
    tmp_path_factory: object, texts: list[str]
) -> None:
    texts = [text.replace("\0", "").encode(errors="replace").decode() for text in texts]
    path = Path(tmp_path_factory.mktemp("export")) / "charges.csv"  # type: ignore[attr-defined]
    write_table(path, [TEXT, MONEY], [[text, "-1.5"] for text in texts])
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert [amount for _, amount in rows] == ["-1.5"] * len(texts)
    for (cell, _), text in zip(rows, texts, strict=True):
        assert cell.lstrip()[:1] not in tuple(BEGINNINGS)
        assert cell == text or (cell[:1] == "'" and cell[1:] == text)
        assert cell != text or text[:1] != "'"
