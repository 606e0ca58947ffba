import json
from pathlib import Path

import pytest

from integration.podium_cli.conftest import CommandLine

TOOL = """
name: twice
kind: function
description: Works out sums.
side_effect: pure
parameters: {type: object}
connection: {function: {function: calculator}}
"""


@pytest.mark.parametrize(
    ("arguments", "status", "cause", "fix"),
    [
        (["run", "x", "--tool", "calculater"], 1, "no tool calculater", "calculator"),
        (["run", "x", "--policy", "balancd"], 1, "no policy balancd", "balanced"),
        (["run", "x", "--model", "scripted"], 1, "no orchestrator model", "scripted-model"),
        (["tools", "show", "dictionry"], 1, "no tool dictionry", "dictionary"),
        (["run", "x", "--api-key", "wrong"], 1, "API key is not valid", "admin"),
        (["run", " "], 2, "the task is empty", "podium run"),
        (["run", "x", "--budget", "lots"], 2, "'lots'", "0.05"),
        (["run", "x", "--time-limit", "soon"], 2, "'soon'", "90s"),
        (["run", "x", "--prompt-mode", "loud"], 2, "'loud'", "stateless"),
        (["spend", "--by", "colour"], 2, "'colour'", "tool"),
        (["episodes", "list", "--state", "gone"], 2, '--state: there is no "gone"', "running"),
        (["tools", "list", "--kind", "fnuction"], 2, "--kind", "did you mean function?"),
        (["budgets", "create", "b", "--amount", "1", "--scope", "taem"], 2, "--scope", "team"),
        (["webhooks", "deliveries", "--state", "gone"], 2, "--state", "delivered"),
        (["trajectories", "redrive"], 2, "name records", "--all-tenants"),
        (["trajectories", "redrive", "r1"], 1, "no record r1", "dead-letters"),
        (["tools", "apply", "-f", "nowhere.yaml"], 2, "nowhere.yaml", "path"),
        (["budgets", "show", "everyda"], 1, "no open budget everyda", "`podium budgets list`"),
        (["tools", "delete", "calculator"], 1, "a tool of every tenant", "deny it"),
        (["tools", "search", ""], 1, "query is empty", "give it a value"),
        (["tools", "try", "calculator", '{"expresion": "1"}'], 1, "expression", "tools show"),
        (["keys", "create", "eve", "--expires", "soon"], 2, "'soon' is not a time", "7d"),
        (["run", "x", "--url", "http://127.0.0.1:1", "--api-key", "k"], 1, "no gateway", "--url"),
    ],
)
def test_a_mistake_is_reported_in_two_lines(
    podium: CommandLine, arguments: list[str], status: int, cause: str, fix: str
) -> None:
    ended = podium(*arguments)
    assert (ended.returncode, ended.stdout) == (status, "")
    first, second = ended.stderr.splitlines()
    assert first.startswith("error: ")
    assert cause in first
    assert second.startswith(" fix: ")
    assert fix in second


def test_a_misspelt_command_suggests_the_right_one(podium: CommandLine) -> None:
    ended = podium("episods", "list")
    assert ended.returncode == 2
    assert "episodes" in ended.stderr


def test_without_a_platform_a_command_names_the_command_that_starts_one(tmp_path: Path) -> None:
    ended = CommandLine(tmp_path)("tools", "list")
    assert ended.returncode == 1
    assert "podium is not up" in ended.stderr
    assert "`podium up`" in ended.stderr


def test_a_foreign_platform_needs_a_key_of_its_own(podium: CommandLine) -> None:
    ended = podium("tools", "list", "--url", "http://127.0.0.1:1")
    assert ended.returncode == 2
    assert "PODIUM_API_KEY" in ended.stderr


def test_a_name_that_is_taken_twice_is_rejected_with_both_places(
    podium: CommandLine, tmp_path: Path
) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(TOOL)
    ended = podium("tools", "apply", "-f", str(tmp_path))
    assert ended.returncode == 2
    assert "2 tools are named twice" in ended.stderr
    assert "a.yaml" in ended.stderr and "b.yaml" in ended.stderr


def test_what_the_platform_rejects_is_named_with_its_file(
    podium: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text(TOOL.replace("twice", "Wrong Name!"))
    tools = podium("tools", "apply", "-f", str(tmp_path))
    assert tools.returncode == 2 and "a.yaml: Wrong Name!" in tools.stderr
    (tmp_path / "a.yaml").write_text("{name: balanced, preset: cost-first}")
    policies = podium("policies", "apply", "-f", str(tmp_path / "a.yaml"))
    assert policies.returncode == 2 and "a.yaml: balanced is a preset" in policies.stderr


def test_errors_with_json_are_json_and_suggest_names(podium: CommandLine) -> None:
    ended = podium("tools", "show", "dictionry", "--json")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "dictionary" in json.loads(ended.stderr.splitlines()[-1])["error"]["fix"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("podium tools show calcu", "calculator"),
        ("podium policy show cost", "cost-first"),
        ("podium run x --tool diction", "dictionary"),
        ("podium run x --policy spee", "speed-first"),
    ],
)
def test_the_shell_completes_names(podium: CommandLine, line: str, expected: str) -> None:
    asked = {
        "_PODIUM_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    ended = CommandLine(podium.state_dir, podium.environment | asked)()
    assert ended.stdout.split() == [expected]


def test_the_shell_completes_nothing_without_a_platform(tmp_path: Path) -> None:
    asked = {
        "_PODIUM_COMPLETE": "complete_bash",
        "COMP_WORDS": "podium tools show c",
        "COMP_CWORD": "3",
    }
    ended = CommandLine(tmp_path, asked)()
    assert (ended.stdout.strip(), ended.stderr) == ("", "")


def test_the_first_key_of_a_second_tenant_is_made_on_this_machine(podium: CommandLine) -> None:
    made = podium("keys", "create", "ada", "--tenant", "second")
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    connection = json.loads((podium.state_dir / "connection.json").read_text())
    elsewhere = ("--url", connection["gateway_url"], "--api-key", key)
    [listed] = json.loads(podium("keys", "list", *elsewhere, "--json").stdout)["api_keys"]
    assert (listed["subject"], listed["roles"]) == ("ada", ["tenant-admin"])
    wrong = podium("keys", "create", "ada", "--tenant", "second", "--role", "developer")
    assert wrong.returncode == 2 and "leave out the other options" in wrong.stderr
