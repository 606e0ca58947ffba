import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version
from typing import Any

import pytest
from typer.testing import CliRunner

from podium_cli.app import COMMANDS, SINGULARS, app, load
from podium_cli.command import SHARED_OPTIONS
from podium_operations import DISTRIBUTION

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


# Each takes a good part of a second, and none is needed to say how a command is written.
SLOW = [
    "confluent_kafka",
    "kafka",
    "matplotlib",
    "numpy",
    "podium_operations.local.platform",
    "psycopg",
    "sqlalchemy",
    "temporalio",
    "torch",
    "transformers",
]
FOUND = "import sys\nfound = lambda names: [name for name in names if name in sys.modules]\n"
# Besides, for what names no command.
NEEDLESS = ["google.protobuf", "grpc", "httpx", "podium_cli.command", "pydantic", "yaml"]


def test_the_version_is_the_distributions() -> None:
    ended = CliRunner().invoke(app, ["--version"])
    assert (ended.exit_code, ended.stdout) == (0, f"podium {version(DISTRIBUTION)}\n")


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_names_no_command_imports_none(option: str) -> None:
    program = (
        "from podium_cli.ending import status_of\n"
        f"assert status_of(['{option}']) == 0\n"
        f"{FOUND}print(found({SLOW + NEEDLESS}), file=sys.stderr)\n"
    )
    assert _said(program) == "[]"


def test_the_help_of_a_command_imports_nothing_slow() -> None:
    program = (
        "from podium_cli.app import COMMANDS, load\n"
        f"{FOUND}for name in COMMANDS:\n"
        f"    load(name)\n    print(name, found({SLOW}), file=sys.stderr)\n"
    )
    assert _said(program).splitlines() == [f"{name} []" for name in COMMANDS]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_describes_a_command_as_the_command_does(name: str) -> None:
    _, _, summary = COMMANDS[name]
    assert load(name).get_short_help_str(1000) == summary


def test_a_group_is_found_under_its_singular_too() -> None:
    assert set(SINGULARS.values()) == {each for each in COMMANDS if _is_plural(each)}
    ended = CliRunner().invoke(app, ["policy", "list", "--help"])
    assert ended.exit_code == 0
    assert "podium policies list" in ended.stdout


def _is_plural(name: str) -> bool:
    return name.endswith("s") and name not in ("status", "corpus")


def _said(program: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return ended.stderr.strip()
