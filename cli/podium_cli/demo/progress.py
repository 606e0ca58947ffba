"""A live display of tasks being solved: one bar, and a line per running task."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from podium_cli.demo.tasks import Task

ID_WIDTH = 28


class SolvingProgress:
    """Told of every step; a context manager. Without a terminal it prints ends only."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._done = 0
        self._total = total
        self._lines: dict[str, TaskID] = {}
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._overall = self._bars.add_task("[bold]solving tasks[/]", total=total)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def __call__(self, task: Task, doing: str) -> None:
        """A task does something; nothing means that it has ended."""
        if not doing:
            self._end(task)
            return
        description = f"  {task.id:{ID_WIDTH}} [dim]{doing}[/]"
        if task.id not in self._lines:
            self._lines[task.id] = self._bars.add_task(description, total=None)
        self._bars.update(self._lines[task.id], description=description)

    def _end(self, task: Task) -> None:
        self._done += 1
        self._bars.remove_task(self._lines.pop(task.id))
        self._bars.advance(self._overall)
        if not self._console.is_terminal:
            self._console.print(f"{self._done}/{self._total} {task.id}", highlight=False)
