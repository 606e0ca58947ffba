"""The command line: its verbs and options, their values, and how it ends."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from podium_cli.app import COMMANDS, SINGULARS, app, load
from podium_cli.command import SHARED_OPTIONS
from podium_cli.ending import NOBODY_READS
from podium_cli.inputs import (
    month_bounds,
    parse_labels,
    parse_money,
    parse_seconds,
    parse_share,
    parse_start,
    parse_time,
)
from podium_kit.client.errors import UsageError
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


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5s", 1.5), ("5m", 300), ("2 min", 120), ("1h", 3600)]
)
def test_a_length_of_time_has_a_unit_or_is_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 weeks", "-3s", "1h30"])
def test_other_lengths_of_time_are_rejected_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as rejected:
        parse_seconds(text)
    assert "90s" in rejected.value.fix


@pytest.mark.parametrize("text", ["9999999d", f"{'9' * 400}d"])
def test_a_length_of_time_that_no_calendar_holds_is_rejected(text: str) -> None:
    for parse in (parse_seconds, parse_start):
        with pytest.raises(UsageError, match="too long") as rejected:
            parse(text)
        assert "36500d" in rejected.value.fix


@pytest.mark.parametrize(
    ("text", "shown"),
    [("0.05", "0.05 USD"), ("$2", "2 USD"), ("1.5 eur", "1.5 EUR"), ("20USD", "20 USD")],
)
def test_money_is_dollars_unless_a_currency_is_named(text: str, shown: str) -> None:
    money = parse_money(text)
    assert f"{money.amount} {money.currency_code}" == shown


@pytest.mark.parametrize("text", ["", "much", "0", "-1", "1 dollars", "1e3"])
def test_other_amounts_are_rejected(text: str) -> None:
    with pytest.raises(UsageError):
        parse_money(text)


@pytest.mark.parametrize(("text", "share"), [("80%", "0.8"), ("99.5 %", "0.995"), ("100%", "1")])
def test_a_share_is_a_part_of_a_hundred(text: str, share: str) -> None:
    assert parse_share(text) == Decimal(share)


@pytest.mark.parametrize("text", ["0%", "100.1%", "-5%", "some%", "%", "0.001%"])
def test_other_shares_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is no share"):
        parse_share(text)


def test_labels_keep_what_follows_the_first_equals_sign() -> None:
    assert parse_labels(["team=search", "query=a=b"]) == {"team": "search", "query": "a=b"}


@pytest.mark.parametrize("pair", ["team", "=search"])
def test_a_label_without_name_or_value_is_rejected(pair: str) -> None:
    with pytest.raises(UsageError):
        parse_labels([pair])


@pytest.mark.parametrize("text", ["0000-01", "0999-12", "9999-12", "2026-13", "٢٠٢٦-10"])
def test_a_month_that_no_report_is_about_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is no month"):
        month_bounds(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59-05:00", "soon"])
def test_a_time_that_no_calendar_holds_is_rejected(text: str) -> None:
    for parse in (parse_time, parse_start):
        with pytest.raises(UsageError, match="is not a time"):
            parse(text)


def test_an_early_year_has_four_digits() -> None:
    assert parse_time("0999-03-01T12:00Z") == "0999-03-01T12:00:00.000000Z"


def test_an_empty_start_is_the_platforms_own() -> None:
    nowhere = ["--url", "http://127.0.0.1:1", "--api-key", "key"]
    ended = CliRunner().invoke(app, ["policies", "try", "balanced", "--since", "", *nowhere])
    assert ended.stderr.startswith("error: no gateway answers")


def podium(*arguments: str, stdout: int = subprocess.PIPE) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "podium_cli", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["tools", "--help"]])
def test_a_closed_pipe_ends_it_quietly(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = podium(*arguments, stdout=writing)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (NOBODY_READS, "")


def test_a_full_disk_is_named() -> None:
    with Path("/dev/full").open("w") as full:
        ended = podium("--version", stdout=full.fileno())
    assert ended.returncode == 1
    assert ended.stderr == "error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("arguments", "status", "cause"),
    [
        (["tools", "list"], 1, "podium is not up"),
        (["tools", "lst"], 2, "Did you mean 'list'?"),
        (["tools", "apply"], 2, "--file"),
        (["spend", "--by", "colour"], 2, "'colour'"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_with_json_an_error_is_json(
    tmp_path: Path, arguments: list[str], status: int, cause: str
) -> None:
    known = [] if status == 2 else ["--state-dir", str(tmp_path)]
    if arguments[0] == "spend":
        known = ["--url", "http://127.0.0.1:1", "--api-key", "k"]
    ended = podium(*arguments, *known, "--json")
    assert (ended.returncode, ended.stdout) == (status, "")
    error = json.loads(ended.stderr)["error"]
    assert cause in error["cause"]
    assert error["status"] == status


def test_a_fault_is_two_lines_and_its_trace_a_file(tmp_path: Path) -> None:
    names = ("gateway_url", "api_key", "admin_key", "pid")
    connection = dict.fromkeys(names, 5)
    (tmp_path / "connection.json").write_text(json.dumps(connection))
    ended = podium("tools", "list", "--state-dir", str(tmp_path))
    assert ended.returncode == 1
    cause, fix = ended.stderr.splitlines()
    assert cause.startswith("error: ") and "this is a fault of podium" in fix
    trace = Path(fix.rsplit(" ", 1)[1])
    assert "Traceback" in trace.read_text()
    trace.unlink()
