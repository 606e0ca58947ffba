from collections.abc import Iterable, Sequence
from itertools import product
from textwrap import shorten

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

GAP = 2
# Narrower, prose is a tower of words; the second is taken where nothing else fits.
COMFORTABLE, LEAST = 24, 12

Row = Sequence[str | int | Text]


class Listing:
    """A table that fits its terminal and keeps words whole.

    A header that ends in "#" aligns to the right; one in "…" is cut between words to fit.
    Where words do not fit side by side, `dispensable` columns are left out, one after another,
    and named below; where that does not help, each row becomes a block with a line per column.
    """

    def __init__(
        self, columns: Sequence[str], rows: Iterable[Row], dispensable: Sequence[str] = ()
    ) -> None:
        self._columns = list(columns)
        self._rows = [[_text(cell) for cell in row] for row in rows]
        self._dispensable = [name for name in dispensable if name in columns]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not console.is_terminal:
            yield from self._separated()
            return
        for prose, count in product((COMFORTABLE, LEAST), range(len(self._dispensable) + 1)):
            left_out = self._dispensable[:count]
            places = [place for place, name in enumerate(self._columns) if name not in left_out]
            if widths := self._widths(places, options.max_width, prose):
                yield self._table(places, widths)
                if left_out:
                    names = " and ".join(name.rstrip("#…") for name in left_out)
                    note = f"left out to fit the terminal: {names} (see --json)"
                    yield Text(note, style="dim")
                return
        yield from self._blocks()

    def _separated(self) -> Iterable[Segment]:
        names = [name.rstrip("#…") for name in self._columns]
        lines = [names] if any(names) else []
        lines += [[" ".join(cell.plain.split()) for cell in row] for row in self._rows]
        for line in lines:
            yield Segment("\t".join(line) + "\n")

    def _widths(self, places: Sequence[int], width: int, prose: int) -> list[int] | None:
        """A width for each column that keeps its words; None when that is too much."""
        sizes = [self._size(place, prose) for place in places]
        widths = [least for least, _ in sizes]
        spare = width - sum(widths) - GAP * (len(places) - 1)
        if spare < 0:
            return None
        # Columns that lack least are completed first: most become one line.
        for place in sorted(range(len(sizes)), key=lambda each: sizes[each][1] - sizes[each][0]):
            added = min(spare, sizes[place][1] - widths[place])
            widths[place] += added
            spare -= added
        return widths

    def _size(self, place: int, prose: int) -> tuple[int, int]:
        name = self._columns[place]
        header = cell_len(name.rstrip("#…"))
        whole = max([header, *(cell_len(row[place].plain) for row in self._rows)])
        if name.endswith("#"):
            # A number in two lines is read as two numbers.
            return whole, whole
        if name.endswith("…"):
            return min(whole, max(header, prose)), whole
        words = (word for row in self._rows for word in row[place].plain.split())
        return max([header, min(whole, prose), *map(cell_len, words)]), whole

    def _table(self, places: Sequence[int], widths: Sequence[int]) -> Table:
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0))
        table.show_header = any(self._columns)
        for place, width in zip(places, widths, strict=True):
            name = self._columns[place]
            table.add_column(
                name.rstrip("#…"),
                justify="right" if name.endswith("#") else "left",
                width=width,
                no_wrap=name.endswith(("#", "…")),
            )
        for row in self._rows:
            table.add_row(*(self._cell(row, *each) for each in zip(places, widths, strict=True)))
        return table

    def _cell(self, row: Sequence[Text], place: int, width: int) -> Text:
        if not self._columns[place].endswith("…") or cell_len(row[place].plain) <= width:
            return row[place]
        return Text(shorten(row[place].plain, width, placeholder=" …"), row[place].style)

    def _blocks(self) -> Iterable[RenderableType]:
        names = [name.rstrip("#…") for name in self._columns]
        for row in self._rows:
            block = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0))
            block.add_column(no_wrap=True, style="bold")
            block.add_column(overflow="fold")
            for name, cell in zip(names, row, strict=True):
                block.add_row(name, cell)
            yield block
            yield Text()


def listing(
    columns: Sequence[str], rows: Iterable[Row], dispensable: Sequence[str] = ()
) -> Listing:
    return Listing(columns, rows, dispensable)


def _text(cell: str | int | Text) -> Text:
    # As Text: Rich must not parse names and answers as markup.
    return cell if isinstance(cell, Text) else Text(str(cell))
