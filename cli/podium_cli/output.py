"""Results go to stdout, everything else to stderr, so that output can be piped."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.syntax import Syntax
from rich.text import Text

from podium_kit.client.errors import UsageError, UserError
from podium_kit.wire import json_values

# Width of tables when the output is no terminal.
PIPE_WIDTH = 160


class Output:
    def __init__(self, as_json: bool, results: Console | None = None) -> None:
        self.as_json = as_json
        self.results = results or _console(stderr=False)
        self.progress = _console(stderr=True)

    @property
    def is_live(self) -> bool:
        """True when a person sees progress while it is made."""
        return self.progress.is_terminal and not self.as_json

    @property
    def _is_piped(self) -> bool:
        """True when stderr is no terminal: a program reads lines of any length."""
        return not self.progress.is_terminal

    def result(self, data: Message | Mapping[str, Any], view: RenderableType) -> None:
        """Prints the view for people, or the data as JSON. A view that is a str is no markup."""
        if self.as_json:
            self.json(data, indent=2)
        else:
            self._show(Text(view) if isinstance(view, str) else view)

    def _show(self, view: RenderableType) -> None:
        if self.results.is_terminal:
            self.results.print(view)
        elif isinstance(view, Syntax):
            # A file that is read again: without colours, padding and line breaks of ours.
            self.results.file.write(view.code.rstrip("\n") + "\n")
        else:
            # In a pipe a line is as long as it is.
            self.results.print(view, soft_wrap=True)

    def json(self, data: Message | Mapping[str, Any], indent: int | None = None) -> None:
        """One JSON object on stdout; messages in the field names of the API."""
        values = json_values(data) if isinstance(data, Message) else data
        text = json.dumps(values, indent=indent, ensure_ascii=False, default=str)
        # Not through rich, which would wrap and colour it.
        self.results.file.write(text + "\n")
        self.results.file.flush()

    def note(self, text: str) -> None:
        """Prints markup: what others wrote is escaped (rich.markup.escape)."""
        self.progress.print(text, highlight=False, emoji=False, soft_wrap=self._is_piped)

    def warn(self, text: str) -> None:
        self.note(f"[yellow]warning:[/] {escape(text)}")

    def error(self, error: UserError) -> None:
        """Two lines: the cause, and what fixes it; or one of JSON, the last of stderr."""
        if self.as_json:
            problem = {"cause": error.cause, "fix": error.fix, "status": error.exit_status}
            self.progress.file.write(json.dumps({"error": problem}, ensure_ascii=False) + "\n")
            return
        lines = [Text.assemble(("error:", "bold red"), f" {error.cause}")]
        if error.fix:
            lines.append(Text.assemble((" fix:", "bold"), f" {error.fix}"))
        for line in lines:
            self.progress.print(line, soft_wrap=self._is_piped)


def _console(stderr: bool) -> Console:
    console = Console(stderr=stderr, soft_wrap=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises UsageError when the file, or what is written beside it, cannot be."""
    require_place(path)
    try:
        yield
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise UsageError(f"cannot write {path}: {cause}", "name a file you may write") from error


def require_place(path: Path) -> None:
    """Raises UsageError where no file can be; for what is written at the end of long work."""
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder", "name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no such folder", "make it first")
