"""`podium tools try`: one call without an episode, decided and charged like any other."""

from pathlib import Path

import pytest

from integration.podium_cli.conftest import CommandLine
from openai_server import OpenAiServer


def test_a_call_prints_what_it_gives_and_is_charged(
    podium: CommandLine, model: OpenAiServer
) -> None:
    before = len(model.requests)
    ended = podium("tools", "try", "calculator", '{"expression": "17% of 2,340"}')
    assert ended.returncode == 0, ended.stderr
    assert "397.8" in ended.stdout
    assert "$0.000001" in ended.stderr
    assert len(model.requests) == before


def test_its_entries_say_who_allowed_it(podium: CommandLine) -> None:
    call = podium.json("tools", "try", "calculator", '{"expression": "2 + 2"}')
    explained = podium.json("audit", "explain", call["ledger_key"])["explanation"]
    entry = explained["charge"]["entry"]
    assert entry["subject"]["tool"] == "calculator"
    assert entry["amount"]["amount"] == call["cost"]["amount"] == "0.000001"
    assert entry["policy_version"] == f"{call['policy_name']}/{call['policy_version']}"


def test_the_policy_decides_about_it(podium: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("{name: no-sums, preset: balanced, deny: {names: [calculator]}}")
    podium("policies", "apply", "-f", str(path))
    ended = podium("tools", "try", "calculator", '{"expression": "1"}', "--policy", "no-sums")
    assert ended.returncode == 1
    assert "calculator" in ended.stderr and ended.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["calculator", "{"], 2, "not JSON"),
        (["calculator", "[]"], 2, "no JSON object"),
        (["calculatr"], 1, "did you mean calculator"),
        (["calculator", "{}"], 1, "expression"),
        (["calculator", '{"expression": "1 / 0"}'], 1, "zero"),
    ],
)
def test_what_cannot_be_called_is_an_error(
    podium: CommandLine, arguments: list[str], status: int, words: str
) -> None:
    ended = podium("tools", "try", *arguments)
    assert (ended.returncode, ended.stdout) == (status, "")
    assert words in ended.stderr
