"""Pages of the documentation, tried as a reader does: block by block, in order, in one shell.

* A block whose first line is `# NAME.yaml` or `# NAME.py` is a file, and is written.
* A block without a language, or of a shell, is typed in; a block of Python without a name is run.
* `# says X` at the end of a command is compared with what the command prints.
* A block with `$ command` and its output is a transcript: the last line is compared.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAYS = re.compile(r"# says (.+)$", re.MULTILINE)
FILE = re.compile(r"# ([\w.-]+\.(?:yaml|py|jsonl|csv))\n")
SHELL = ("", "sh", "bash", "console")
MARKER = "end-of-command"


@dataclass(frozen=True)
class Page:
    """A page, and why some of its commands are not run: by the beginning of the command."""

    path: Path
    not_run: Mapping[str, str]

    @property
    def blocks(self) -> list[tuple[str, str]]:
        return BLOCK.findall(self.path.read_text())

    def commands(self) -> list[str]:
        return [
            command
            for language, block in self.blocks
            if language in SHELL and not FILE.match(block) and not block.startswith("$ ")
            for command in statements(block)
        ]


class Terminal:
    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What a page has started in the background and not stopped.
        self.type("kill $(jobs -p) 2>/dev/null; true")
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        self._bash.wait(60)

    def type(self, command: str) -> tuple[int, str]:
        assert self._bash.stdin is not None and self._bash.stdout is not None
        self._bash.stdin.write(f"{{ {command}\n}} < /dev/null\nprintf '\\n{MARKER} %s\\n' $?\n")
        self._bash.stdin.flush()
        lines: list[str] = []
        for line in self._bash.stdout:
            if line.startswith(MARKER):
                return int(line.split()[1]), "".join(lines)
            lines.append(line)
        raise AssertionError(f"the shell ended at {command!r}: {''.join(lines)}")

    def problems(self, page: Page, url: str, api_key: str) -> Iterator[str]:
        for language, block in page.blocks:
            if named := FILE.match(block):
                (self.folder / named[1]).write_text(block)
            elif block.startswith("$ "):
                command, _, output = block.removeprefix("$ ").partition("\n")
                stated = output.strip().splitlines()[-1]
                yield from self._problem(f"{command}  # says {stated}")
            elif language == "python" and "api_key=" in block:
                program = block.replace("http://127.0.0.1:PORT", url).replace("pod_...", api_key)
                (self.folder / "program.py").write_text(program)
                stated = "".join(f"  # says {each}" for each in SAYS.findall(block))
                yield from self._problem(f"{sys.executable} program.py{stated}")
            elif language in SHELL:
                for command in statements(block):
                    if not command.startswith(tuple(page.not_run)):
                        yield from self._problem(command)

    def _problem(self, command: str) -> Iterator[str]:
        status, printed = self.type(command)
        stated = [each.strip() for each in SAYS.findall(command)]
        if status != 0 or not all(each in printed for each in stated):
            yield f"{command}\nended with {status}\n{printed}"


def statements(block: str) -> Iterator[str]:
    waiting = ""
    for line in block.splitlines():
        if not waiting and (not line.strip() or line.startswith("#")):
            continue
        waiting += line
        if not line.endswith("\\") and _is_whole(waiting):
            yield waiting
            waiting = ""
        else:
            waiting += "\n"
    assert not waiting, f"not a whole command: {waiting}"


def _is_whole(command: str) -> bool:
    parsed = subprocess.run(["bash", "-n", "-c", command], check=False, capture_output=True)
    return parsed.returncode == 0
