"""Tables of the list commands, all of one look."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text


def listing(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table; a header that ends in "#" aligns to the right, one in "…" is cut to fit."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    # Only a table that is as wide as the terminal gives a column what the others leave.
    table.expand = any(column.endswith("…") for column in columns)
    for column in columns:
        cut = column.endswith("…")
        table.add_column(
            column.rstrip("#…"),
            justify="right" if column.endswith("#") else "left",
            overflow="ellipsis" if cut else "fold",
            no_wrap=cut,
            ratio=1 if cut else None,
        )
    for row in rows:
        # As text: names and answers are nobody's markup.
        table.add_row(*(each if isinstance(each, Text) else Text(each) for each in row))
    return table
