"""An approver finds what waits in the tenant, and decides, without being told of the episode."""

from pathlib import Path

from integration.podium_cli.conftest import COMMAND_TIMEOUT_S, CommandLine
from openai_server import OpenAiServer


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
