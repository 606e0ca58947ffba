"""Commands that pages, messages and comments name exist, with the options they are given."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from podium_cli.app import COMMANDS, SINGULARS, load
from podium_cli.command import SHARED_OPTIONS
from unit.house.source_files import ROOT, tracked_files

READ = (".md", ".py", ".proto", ".sh", ".tpl", ".ts", ".tsx", ".yaml", ".yml", "Makefile")
# A span of code anywhere, and a line of a page's block of code.
SPAN = re.compile(r"`podium ([a-z][^`]*)`")
LINE = re.compile(r"^(?:.*&& |\$ )?podium ([a-z].*)$", re.MULTILINE)
BLOCK = re.compile(r"```[a-z]*\n(.*?)```", re.DOTALL)
NAME = re.compile(r"[a-z][a-z-]*")
OPTION = re.compile(r"--[a-z][a-z-]*")
END = {"|", ">", "&&", "||", "#"}


def command_lines(path: str) -> Iterator[list[str]]:
    text = (ROOT / path).read_text(errors="replace")
    blocks = "\n".join(BLOCK.findall(text)) if path.endswith(".md") else ""
    for found in (*SPAN.findall(text), *LINE.findall(blocks)):
        yield [word.strip(",.;:()\"'") for word in found.split()]


def fault_of(words: list[str]) -> str:
    """Returns what the command does not have; empty when it has all of it."""
    name, *rest = words
    name = SINGULARS.get(name, name)
    if name not in COMMANDS:
        return f"`podium {name}` is no command"
    command: Any = load(name)
    while hasattr(command, "commands") and rest and NAME.fullmatch(rest[0]):
        name = rest.pop(0)
        if name not in command.commands:
            return f"`podium {' '.join(words)}`: {name} is no command"
        command = command.commands[name]
    if hasattr(command, "commands"):
        return ""
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    known |= {f"--{each.replace('_', '-')}" for each in SHARED_OPTIONS} | {"--help"}
    for word in rest:
        if word in END:
            break
        if (option := OPTION.match(word)) and option[0] not in known:
            return f"`podium {' '.join(words)}`: there is no {option[0]}"
    return ""


def test_commands_that_files_name_exist() -> None:
    faults = [
        f"{path}: {fault}"
        for path in tracked_files()
        if path.endswith(READ)
        for words in command_lines(path)
        if (fault := fault_of(words))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("audit entires --unpriced", "entires is no command"),
        ("audit entries --unpaid", "there is no --unpaid"),
        ("adit log", "is no command"),
        ("audit entries --unpriced | wc --lines", ""),
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str, fault: str) -> None:
    assert fault in fault_of(line.split()) if fault else fault_of(line.split()) == ""
