"""The model an expert was asked for cannot answer: another one does, at its own price."""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToDict

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_clamping import api, entries, run, trajectory
from integration.tool_adapters.tool_specs import llm_spec
from openai_server import OpenAiServer, Reply
from podium.registry.v1 import tool_pb2

# Dollars per token, in or out.
PRICES = {"small": Decimal("0.0000002"), "large": Decimal("0.000002")}
ASK = {"thought": "", "tool": "expert", "arguments": {"model": "small"}}


def overloaded_when_small(body: Mapping[str, Any]) -> Reply:
    if body["model"] == "small-model":
        return Reply(status=503)
    return Reply("two", usage={"prompt_tokens": 100, "completion_tokens": 10})


@pytest.fixture
def experts(podium: CommandLine, tmp_path: Path) -> Iterator[OpenAiServer]:
    """Two priced models as one tool; the smaller of them is always overloaded."""
    for alias, price in PRICES.items():
        path = tmp_path / f"{alias}.json"
        path.write_text(json.dumps(price_of(alias, price)))
        imported = podium("prices", "import", str(path))
        assert imported.returncode == 0, imported.stderr
    models = [f"{alias}-model" for alias in PRICES]
    with (
        OpenAiServer([overloaded_when_small] * 20, models=models) as server,
        as_admin(podium) as client,
    ):
        # Only a shared tool may reach a server on this machine.
        tool = {"spec": expert(server.base_url), "shared": True}
        registered = client.post("/v1/tools", json=tool)
        assert registered.is_success, registered.text
        yield server
        deleted = client.delete("/v1/tools/expert")
        assert deleted.is_success, deleted.text


def expert(base_url: str) -> dict[str, Any]:
    """The tool; each of its models has a SKU, so it has none of its own."""
    role = {"role": tool_pb2.LLM_ROLE_GENERALIST}
    spec = llm_spec(base_url, sku="", llm=role)
    return MessageToDict(spec, preserving_proto_field_name=True)


def as_admin(podium: CommandLine) -> httpx.Client:
    client = api(podium)
    connection = json.loads((podium.state_dir / "connection.json").read_text())
    client.headers["authorization"] = f"Bearer {connection['admin_key']}"
    return client


def price_of(alias: str, price: Decimal) -> dict[str, Any]:
    components = [
        {"dimension": name, "unit_price": f"{price * 1_000_000:f}", "per": "1000000"}
        for name in ("input_fresh", "output_text")
    ]
    return {
        "sku": f"{alias}-sku",
        "tenant": "default",
        "currency_code": "USD",
        "components": components,
    }


def test_the_hold_covers_every_model_and_the_one_that_answers_is_shown_and_charged(
    podium: CommandLine, model: OpenAiServer, experts: OpenAiServer
) -> None:
    model.push(ASK, {"answer": "two"})
    episode = run(podium, "--tool", "expert")
    assert episode["answer"] == "two", experts.requests
    assert {asked["model"] for asked in experts.requests} == {"small-model", "large-model"}
    record = trajectory(podium, episode)
    (invocation,) = record["turns"][0]["tool_invocations"]
    assert (invocation["model"], invocation["answered_by_model"]) == ("small", "large")
    assert invocation["sku"] == "large-sku"
    assert Decimal(invocation["cost"]["amount"]) == 110 * PRICES["large"]

    (hold,) = of_expert(entries(podium, episode, "RESERVE"))
    tokens = sum(
        Decimal(each["amount"])
        for each in hold["worst_case"]
        if each["dimension"] != "USAGE_DIMENSION_SECOND"
    )
    assert hold["sku"] == "small-sku"
    assert Decimal(hold["amount"]["amount"]) == tokens * PRICES["large"]
    captures = entries(podium, episode, "CAPTURE")
    (charged,) = of_expert(captures)
    assert (charged["sku"], charged["subject"]["model"]) == ("large-sku", "large")
    assert charged["amount"] == invocation["cost"]
    assert charged["price_version_id"] not in ("", hold["price_version_id"])
    costs = [Decimal(each["amount"]["amount"]) for each in captures if "amount" in each]
    assert Decimal(record["cost"]["amount"]) == sum(costs)


def of_expert(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in found if entry["subject"]["tool"] == "expert"]
