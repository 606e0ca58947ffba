"""Tables of the list commands, all of one look."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

EMPTY = "[dim]none[/]"


def listing(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table; a column whose header ends in "#" is aligned to the right."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        right = column.endswith("#")
        table.add_column(
            column.removesuffix("#"), justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        # As text: names and answers are nobody's markup.
        table.add_row(*(each if isinstance(each, Text) else Text(each) for each in row))
    return table
