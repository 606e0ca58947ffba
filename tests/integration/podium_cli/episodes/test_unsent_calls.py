"""A priced call that never left the machine is free; the entry says why its hold came back."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from integration.podium_cli.conftest import CommandLine
from openai_server import OpenAiServer
from podium_kit.embedded.ports import free_port

PRICES = """sku,dimension,unit_price
own/unsent/call,call,0.25
own/unsent/model,input_fresh,0.001
own/unsent/model,output_text,0.001
"""


def spec(kind: str, url: str) -> dict[str, Any]:
    """A tool of that kind at an address where no one listens."""
    model = {
        "alias": "expert",
        "model": "m",
        "base_url": f"{url}/v1",
        "api": "openai_chat",
        "sku": "own/unsent/model",
    }
    connections: dict[str, Any] = {
        "http": {"method": "GET", "url_template": f"{url}/rates"},
        "mcp": {"tool_name": "rates", "http": {"url": f"{url}/mcp"}},
        "llm": {"models": [model], "role": "generalist"},
    }
    priced = {} if kind == "llm" else {"sku": "own/unsent/call"}
    return {
        "name": f"unsent_{kind}",
        "kind": kind,
        "description": "Gives the rates of today.",
        "side_effect": "pure",
        "parameters": {"type": "object"},
        "limits": {"max_attempts": 1},
        "connection": {kind: connections[kind]},
        **priced,
    }


@pytest.fixture
def prices(podium: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(PRICES)
    assert podium("prices", "import", str(tmp_path / "prices.csv")).returncode == 0


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("kind", ["http", "mcp", "llm"])
def test_a_refused_connection_costs_nothing(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path, kind: str
) -> None:
    episode, entries = called(
        podium, model, tmp_path, spec(kind, f"http://127.0.0.1:{free_port()}")
    )
    kinds = [(each["kind"], each["reason"]) for each in entries]
    assert kinds == [
        ("ENTRY_KIND_RESERVE", ""),
        ("ENTRY_KIND_RELEASE", "not sent: unavailable"),
    ]
    rows = podium.json("spend", "--episode", episode["id"], "--by", "tool")["rows"]
    assert not [row for row in rows if f"unsent_{kind}" in row["values"]]
    shown = podium("audit", "explain", entries[1]["sequence"])
    assert "not sent: unavailable" in shown.stdout


@pytest.mark.usefixtures("prices")
def test_an_owner_may_charge_for_it(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    charging = spec("http", f"http://127.0.0.1:{free_port()}") | {"charges_unsent_calls": True}
    _, entries = called(podium, model, tmp_path, charging)
    assert [each["kind"] for each in entries] == ["ENTRY_KIND_RESERVE", "ENTRY_KIND_CAPTURE"]
    assert entries[1]["amount"]["amount"] == "0.25"


def called(
    podium: CommandLine, model: OpenAiServer, folder: Path, tool: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The episode that called the tool once, and what the ledger wrote about that call."""
    (folder / "tool.yaml").write_text(yaml.safe_dump(tool))
    applied = podium("tools", "apply", "-f", str(folder / "tool.yaml"))
    assert applied.returncode == 0, applied.stderr
    model.push({"thought": "", "tool": tool["name"], "arguments": {}}, {"answer": "unknown"})
    run = podium("run", "What are the rates?", "--tool", tool["name"], "--json")
    episode = json.loads(run.stdout.splitlines()[-1])["finished"]["episode"]
    found = entries_of(podium, episode["id"])
    return episode, [each for each in found if each["subject"]["tool"] == tool["name"]]


def entries_of(podium: CommandLine, episode_id: str) -> list[dict[str, Any]]:
    connection = json.loads((podium.state_dir / "connection.json").read_text())
    reply = httpx.get(
        f"{connection['gateway_url']}/v1/entries",
        params={"episode_id": episode_id, "page_size": 100},
        headers={"authorization": f"Bearer {connection['api_key']}"},
        trust_env=False,
    )
    entries: list[dict[str, Any]] = reply.raise_for_status().json()["entries"]
    return sorted(entries, key=lambda each: int(each["sequence"]))
