"""What `podium` says of itself, and that it says so without importing the platform."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from podium_cli.app import COMMANDS, SINGULARS, app, load
from podium_operations import DISTRIBUTION

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
    """What a process of its own, which has imported nothing yet, says on stderr."""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return ended.stderr.strip()
