"""Tables of the list commands, all of one look."""

from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def listing(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table; a header that ends in "#" aligns to the right, one in "…" is cut to fit."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.show_header = any(columns)
    # Only a table that is as wide as the terminal gives a column what the others leave.
    table.expand = any(column.endswith("…") for column in columns)
    for column in columns:
        cut, number = column.endswith("…"), column.endswith("#")
        table.add_column(
            column.rstrip("#…"),
            justify="right" if number else "left",
            overflow="ellipsis" if cut else "fold",
            # A number in two lines is read as two numbers.
            no_wrap=cut or number,
            ratio=1 if cut else None,
        )
    for row in rows:
        # As Text: Rich must not parse names and answers as markup.
        table.add_row(*(each if isinstance(each, Text) else Text(each) for each in row))
    return table


class FittingListing:
    """A table that leaves columns out, one after another, where the terminal is too narrow.

    What is left out is named below it: nothing disappears silently.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[str | Text]],
        dispensable: Sequence[str],
    ) -> None:
        self._columns = list(columns)
        self._rows = [list(row) for row in rows]
        self._dispensable = [name for name in dispensable if name in columns]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        left_out: list[str] = []
        table = self._without(left_out)
        for name in self._dispensable:
            if Measurement.get(console, options.update(width=1000), table).maximum <= (
                options.max_width
            ):
                break
            left_out.append(name)
            table = self._without(left_out)
        yield table
        if left_out:
            names = " and ".join(name.rstrip("#…") for name in left_out)
            yield Text(f"left out to fit the terminal: {names} (see --json)", style="dim")

    def _without(self, names: Sequence[str]) -> Table:
        kept = [place for place, name in enumerate(self._columns) if name not in names]
        rows = ([row[place] for place in kept] for row in self._rows)
        return listing([self._columns[place] for place in kept], rows)
