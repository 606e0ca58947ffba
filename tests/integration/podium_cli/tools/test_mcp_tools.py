"""The platform as an MCP server: tools of the policy, called and charged without an episode."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_clamping import api
from integration.podium_cli.episodes.test_direct_calls import experts, ledger_entries, prices
from integration.podium_cli.episodes.test_fallback_models import PRICES
from openai_server import OpenAiServer

__all__ = ["experts", "prices"]
SUM = {"expression": "6*7"}
PRICE = "sku,dimension,unit_price\nown/mcp/sums,call,0\n"


@asynccontextmanager
async def client_of(podium: CommandLine) -> AsyncIterator[Client]:
    connection = json.loads((podium.state_dir / "connection.json").read_text())
    headers = {"Authorization": f"Bearer {connection['api_key']}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=240) as http:
        url = f"{connection['gateway_url']}/v1/mcp"
        async with Client(streamable_http_client(url, http_client=http)) as client:
            yield client


async def call(client: Client, name: str, **given: Any) -> tuple[str, dict[str, Any], bool]:
    meta: Any = {"podium": given.pop("podium", {})}
    result = await client.call_tool(name, given, meta=meta)
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text, (result.meta or {}).get("podium", {}), result.is_error


async def test_a_tool_of_the_policy_is_called_held_and_charged_once(
    podium: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "prices.csv").write_text(PRICE)
    assert podium("prices", "import", str(tmp_path / "prices.csv")).returncode == 0
    with api(podium) as http:
        spec = http.get("/v1/tools/calculator").json()["tool"]["spec"]
        # The function is the operator's, and so is its price, under any name.
        own = {**spec, "name": "own_sums", "sku": "own/mcp/sums"}
        made = http.post("/v1/tools", json={"spec": own})
        assert made.is_success, made.text
        assert made.json()["tool"]["spec"]["sku"] == spec["sku"]
    once = {"idempotency_key": "sums", "labels": {"team": "red"}}
    async with client_of(podium) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        first = await call(client, "own_sums", **SUM, podium=once)
        again = await call(client, "own_sums", **SUM, podium=once)
        other = await call(client, "own_sums", expression="7*7", podium=once)
        wrong = await call(client, "own_sums", colour="red")
        poor = await call(client, "own_sums", **SUM, podium={"budget_usd": "0.0000001"})
        with pytest.raises(Exception, match="there is no tool fly"):
            await client.call_tool("fly", {})
    assert first == again and not first[2]
    text, shown, _ = first
    assert "42" in text
    price = (listed["calculator"].meta or {})["podium"]["price_per_call"]["amount"]
    assert Decimal(shown["cost"]["amount"]) == Decimal(price) > 0
    assert shown["usage"]["call"] == "1"
    described = listed["own_sums"]
    assert described.input_schema["required"] == ["expression"]
    assert (described.meta or {})["podium"]["price_per_call"]["amount"] == price
    reserve, capture = ledger_entries(podium, f"{shown['call_id']}/0/tool/0")
    assert (reserve["kind"], capture["kind"]) == ("ENTRY_KIND_RESERVE", "ENTRY_KIND_CAPTURE")
    assert (capture["subject"]["tool"], capture["subject"]["team"]) == ("own_sums", "red")
    assert other[2] and "another spec" in other[0]
    # What the tool rejects never left the machine.
    assert wrong[2] and "expression" in wrong[0]
    assert (wrong[1]["failure"], wrong[1]["cost"]["amount"]) == ("INVALID_ARGUMENTS", "0")
    assert poor[2] and poor[1]["failure"] == "BUDGET_EXHAUSTED"
    with api(podium) as http:
        assert http.delete("/v1/tools/own_sums").is_success


async def test_a_model_is_asked_in_the_words_of_the_call(
    podium: CommandLine, experts: OpenAiServer
) -> None:
    async with client_of(podium) as client:
        text, shown, _ = await call(client, "expert", prompt="How many moons?", model="large")
        empty = await call(client, "expert", model="large")
    assert text == "two; I think"
    assert Decimal(shown["cost"]["amount"]) == 110 * PRICES["large"]
    assert empty[2] and "prompt is empty" in empty[0]
    [asked] = experts.requests
    assert asked["messages"] == [{"role": "user", "content": "How many moons?"}]


async def test_what_the_policy_keeps_out_is_an_error_that_says_why(podium: CommandLine) -> None:
    rules: dict[str, dict[str, Any]] = {
        "mcp-none": {"deny": {"names": ["calculator"]}},
        "mcp-asked": {"approval": {"names": ["calculator"]}},
    }
    with api(podium) as http:
        for name, rule in rules.items():
            made = http.post("/v1/policies", json={"spec": {"name": name, **rule}})
            assert made.is_success, made.text
    async with client_of(podium) as client:
        denied = await call(client, "calculator", **SUM, podium={"policy": "mcp-none"})
        asked = await call(client, "calculator", **SUM, podium={"policy": "mcp-asked"})
    assert denied[2] and denied[0].startswith("calculator is not allowed: ")
    assert asked[2] and "wait for a person's approval" in asked[0]
