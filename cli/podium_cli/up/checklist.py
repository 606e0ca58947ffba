import time
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from podium_cli.formats import format_seconds


class Checklist:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._started: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._failed = False
        self._spinner = Spinner("dots")
        self._live = Live(
            console=console, get_renderable=self._table, refresh_per_second=10, transient=False
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._failed = error is not None
        if self._console.is_terminal:
            self._live.stop()

    def report(self, step: str, done: bool) -> None:
        title = step.replace("_", "-")
        if not done:
            self._started[title] = time.monotonic()
            return
        self._took[title] = time.monotonic() - self._started[title]
        if not self._console.is_terminal:
            self._console.print(f"{title} ready after {format_seconds(self._took[title])}")

    def _table(self) -> RenderableType:
        table = Table.grid(padding=(0, 1))
        table.add_column(width=2)
        table.add_column(min_width=30)
        table.add_column(justify="right", style="dim")
        for title, start in self._started.items():
            if title in self._took:
                table.add_row("[green]✓[/]", title, format_seconds(self._took[title]))
                continue
            mark = Text("✗", "red") if self._failed else self._spinner
            waited = format_seconds(time.monotonic() - start)
            table.add_row(mark, f"[bold]{title}[/]", waited)
        return table
