"""One name for one thing in all commands: verbs, options and the form of their values."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from podium_cli.app import COMMANDS, load
from podium_cli.command import SHARED_OPTIONS

# A verb or option on the left is one that no command has; on the right, its name in all of them.
VERBS = {"get": "show", "remove": "delete"}
OPTIONS = {"--out": "--output", "--subject": "--user", "--top": "--limit", "--last": "--limit"}
LENGTHS_AND_MOMENTS = {
    *("--since", "--until", "--from", "--timeout", "--time-limit"),
    *("--overlap", "--expires", "--rolling"),
}
# Their --from is the number of an entry, and a source of tasks.
NUMBERED = {"audit verify", "train tasks"}


def leaves(command: Any, *path: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, under its whole name."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from leaves(inner, *path, name)
    else:
        yield " ".join(path), command


TREE = dict(leaf for name in COMMANDS for leaf in leaves(load(name), name))


def options(command: Any) -> dict[str, Any]:
    own = [each for each in command.params if each.name not in SHARED_OPTIONS]
    return {name: each for each in own if each.param_type_name == "option" for name in each.opts}


@pytest.mark.parametrize("name", TREE)
def test_a_command_uses_the_verbs_and_options_of_all_others(name: str) -> None:
    verb = name.rpartition(" ")[2]
    assert verb not in VERBS, f"`podium {name}` is `{VERBS[verb]}` elsewhere"
    wrong = {given: OPTIONS[given] for given in options(TREE[name]) if given in OPTIONS}
    assert not wrong, f"`podium {name}` has options of other names elsewhere: {wrong}"


@pytest.mark.parametrize("name", TREE)
def test_values_of_one_meaning_have_one_form(name: str) -> None:
    for option, parameter in options(TREE[name]).items():
        written = parameter.type_descriptor.annotation
        if option in LENGTHS_AND_MOMENTS and name not in NUMBERED:
            assert written in (str, datetime), f"`podium {name} {option}` is not text like 90s"
        if option == "--limit":
            assert written is int, f"`podium {name} --limit` is not a number of rows"
        if option in ("--output", "--file") and name != "train tasks":
            assert option[1:3] in parameter.opts, f"`podium {name} {option}` has no short form"
        assert parameter.help, f"`podium {name} {option}` has no help"
