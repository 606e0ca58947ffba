"""Names that nothing has are warned of where they are stated, with the nearest one that is."""

from pathlib import Path

import pytest

from integration.podium_cli.conftest import CommandLine
from openai_server import OpenAiServer

TOOL = """
name: town_forecast
kind: http
description: Weather forecast of a city for tomorrow.
side_effect: pure
sku: own/town_forecast
parameters: {type: object, properties: {city: {type: string}}, required: [city]}
connection:
  http:
    method: GET
    url_template: "https://weather.example/{city}"
    secret_header: X-Key
    secret: {name: weathr}
"""


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_tool_is_warned_of_what_it_lacks(podium: CommandLine, tmp_path: Path) -> None:
    assert podium("secrets", "set", "weather", stdin="Xk3-99bq-wZ").returncode == 0
    tool = write(tmp_path, "tool.yaml", TOOL)
    dry = podium("tools", "apply", "-f", tool, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    said = " ".join(dry.stderr.split())
    assert "warning: town_forecast: own/town_forecast has no price" in said
    assert "no secret weathr is stored (did you mean weather?)" in said
    wrong = write(tmp_path, "wrong.yaml", TOOL.replace('{city}"', '{town}"'))
    rejected = podium("tools", "apply", "-f", wrong, "--dry-run")
    assert rejected.returncode == 2
    assert "no parameter is named town" in " ".join(rejected.stderr.split())
    assert podium("secrets", "delete", "weather").returncode == 0


def test_a_price_of_no_tool_is_warned_of(podium: CommandLine, tmp_path: Path) -> None:
    tool = write(tmp_path, "tool.yaml", TOOL)
    assert podium("tools", "apply", "-f", tool).returncode == 0
    rows = "sku,dimension,unit_price\nown/town_forcast,call,0.002\n"
    imported = podium("prices", "import", write(tmp_path, "prices.csv", rows))
    assert imported.returncode == 0, imported.stderr
    said = " ".join(imported.stderr.split())
    assert "no tool has the SKU own/town_forcast (did you mean own/town_forecast?)" in said
    podium("tools", "delete", "town_forecast")


def test_a_policy_whose_guard_names_nothing_is_warned_of(
    podium: CommandLine, tmp_path: Path
) -> None:
    policy = "{name: guarded, preset: balanced, deny: {names: [calcluator]}}"
    applied = podium("policies", "apply", "-f", write(tmp_path, "p.yaml", policy))
    assert applied.returncode == 0, applied.stderr
    assert "did you mean calculator?" in " ".join(applied.stderr.split())
    bound = podium("policies", "bind", "guarded", "team:nosuch")
    assert bound.returncode == 0, bound.stderr
    assert "no API key is of the team nosuch" in " ".join(bound.stderr.split())
    podium("policies", "unbind", "guarded", "team:nosuch")


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["budgets", "create", "b1", "--amount", "1 XYZ"], "no price is in XYZ"),
        (["run", "x", "--budget", "0.01 XYZ"], "no price is in XYZ"),
        (["tools", "try", "calculator", "{}", "--budget", "1 XYZ"], "no price is in XYZ"),
    ],
)
def test_a_currency_without_prices_is_rejected_before_anything_begins(
    podium: CommandLine, arguments: list[str], cause: str
) -> None:
    before = podium.json("episodes", "list")["episodes"]
    ended = podium(*arguments)
    assert ended.returncode == 1, ended.stdout
    assert cause in ended.stderr and "USD" in ended.stderr
    assert podium.json("episodes", "list")["episodes"] == before


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
