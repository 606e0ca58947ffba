"""Wrong input as a new user would give it: two lines, cause and fix, and the exit status."""

from pathlib import Path

import pytest

from integration.podium_cli.conftest import CommandLine


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
        (["episodes", "list", "--state", "gone"], 2, "'gone'", "running"),
        (["trajectories", "redrive"], 2, "name records", "--all-tenants"),
        (["trajectories", "redrive", "r1"], 1, "no record r1", "dead-letters"),
        (["tools", "apply", "-f", "nowhere.yaml"], 2, "nowhere.yaml", "path"),
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
