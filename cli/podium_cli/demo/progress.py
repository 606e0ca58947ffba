from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from podium_cli.demo.solving import Task

ID_WIDTH = 28


class SolvingProgress:
    """Shows every step; a context manager. Without a terminal it prints finished tasks only."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._done = 0
        self._total = total
        self._lines: dict[str, TaskID] = {}
        self._overall = Progress(
            TextColumn("[bold]{task.description}[/]"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._running = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        )
        self._bar = self._overall.add_task("solving tasks", total=total)
        self._live = Live(
            Group(self._overall, self._running),
            console=console,
            transient=True,
            refresh_per_second=10,
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
        if self._console.is_terminal:
            self._live.stop()

    def __call__(self, task: Task, doing: str) -> None:
        """A task does something; nothing means that it has ended."""
        if not doing:
            self._end(task)
            return
        description = f"{task.id:{ID_WIDTH}} [dim]{doing}[/]"
        if task.id not in self._lines:
            self._lines[task.id] = self._running.add_task(description, total=None)
        self._running.update(self._lines[task.id], description=description)

    def _end(self, task: Task) -> None:
        self._done += 1
        self._running.remove_task(self._lines.pop(task.id))
        self._overall.advance(self._bar)
        if not self._console.is_terminal:
            self._console.print(f"{self._done}/{self._total} {task.id}", highlight=False)
