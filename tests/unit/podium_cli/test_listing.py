"""Tables fit the terminal: numbers stay whole, and what is left out is named."""

import pytest
from rich.cells import cell_len
from rich.console import Console

from podium_cli.listing import listing

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
