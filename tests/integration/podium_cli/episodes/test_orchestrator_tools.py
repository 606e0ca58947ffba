"""The example of docs/tools-and-policies.md: an orchestrator that calls an orchestrator."""

import re
from pathlib import Path

from integration.podium_cli.conftest import COMMAND_TIMEOUT_S, CommandLine
from openai_server import OpenAiServer

GUIDE = Path(__file__).parents[4] / "docs/tools-and-policies.md"


def manifest() -> str:
    """The tool as the guide writes it."""
    found = re.search(r"```yaml\n(# researcher\.yaml\n.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found
    return found[1]


def test_the_guides_researcher_answers_by_an_episode_of_its_own(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    (tmp_path / "researcher.yaml").write_text(manifest())
    applied = podium("tools", "apply", "-f", str(tmp_path / "researcher.yaml"))
    assert "researcher v1" in applied.stdout, applied.stderr
    task = "Work out 366 * 24 * 60 * 60"
    model.push(
        {"thought": "", "tool": "researcher", "arguments": {"task": task}},
        {"thought": "", "tool": "calculator", "arguments": {"expression": "366 * 24 * 60 * 60"}},
        {"answer": "31622400"},
        {"answer": "A leap year has 31622400 seconds."},
    )
    question = "How many seconds has a leap year?"
    ended = podium("run", question, "--tool", "researcher", "--budget", "0.05")
    assert ended.stdout == "A leap year has 31622400 seconds.\n", ended.stderr
    shown = re.search(r"↳ episode (\S+) answered after 2 turns", ended.stderr)
    assert shown
    assert "by the episodes it called" in " ".join(ended.stderr.split())
    child = podium("episodes", "show", shown[1])
    assert "called by episode" in child.stdout
    assert "calculator" in child.stdout
    assert "↳ " in podium("episodes", "list").stdout


def test_an_approver_finds_and_decides_what_waits(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(
        "name: asks-first\nunknown_price: admit\napproval: {names: [calculator]}\n"
        # One admin created both keys, and so is one person.
        "self_approval: true\n"
    )
    assert podium("policies", "apply", "-f", str(tmp_path / "policy.yaml")).returncode == 0
    boss = podium.json("keys", "create", "boss", "--role", "approver")["key"]
    dan = podium.json("keys", "create", "dan", "--role", "developer")["key"]
    arguments = {"expression": "1 + 1"}
    model.push({"thought": "", "tool": "calculator", "arguments": arguments}, {"answer": "2"})
    run = podium.start("run", "What is 1 + 1?", "--policy", "asks-first", "--api-key", dan)
    while not (waiting := podium.json("approvals", "list", "--api-key", boss)["approvals"]):
        pass
    [asked] = waiting
    assert (asked["started_by"], asked["call"]["tool_name"]) == ("dan", "calculator")
    assert asked["approvable"]
    assert "1 + 1" in podium("approvals", "list", "--api-key", boss).stdout
    assert "calls:approve" in podium("approvals", "list", "--api-key", dan).stderr
    decide = ("episodes", "approve", asked["episode_id"], "--turn", str(asked["turn"]))
    assert podium(*decide, "--api-key", boss).stdout.strip() == "approved"
    answer, trace = run.communicate(timeout=COMMAND_TIMEOUT_S)
    assert (run.returncode, answer.strip()) == (0, "2"), trace
    assert podium.json("approvals", "list")["approvals"] == []
