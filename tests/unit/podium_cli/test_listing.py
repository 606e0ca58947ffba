"""Tables fit the terminal: numbers stay whole, and what is left out is named."""

from rich.console import Console

from podium_cli.listing import FittingListing, listing

COLUMNS = ("sku", "model", "cost#")
ROWS = [("orchestrator/scripted-model", "scripted-model", "$0.000000000001")]


def shown(table: object, width: int) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_a_wide_terminal_shows_every_column() -> None:
    text = shown(FittingListing(COLUMNS, ROWS, ("model",)), 100)
    assert "scripted-model" in text.replace("orchestrator/scripted-model", "")
    assert "left out" not in text


def test_a_narrow_one_names_what_it_leaves_out() -> None:
    text = shown(FittingListing(COLUMNS, ROWS, ("model",)), 50)
    assert text.splitlines()[0].split() == ["sku", "cost"]
    assert "left out to fit the terminal: model" in " ".join(text.split())


def test_a_number_is_never_split() -> None:
    assert "$0.000000000001" in shown(listing(COLUMNS, ROWS), 30)


def test_a_table_without_names_has_no_line_for_them() -> None:
    assert shown(listing(("", ""), [("a", "b")]), 30).strip().split() == ["a", "b"]
    assert len(shown(listing(("", ""), [("a", "b")]), 30).splitlines()) == 1
