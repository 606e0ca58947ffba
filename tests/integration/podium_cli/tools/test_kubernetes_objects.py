"""Objects of podium.dev against a real platform: applied once, mended, ended, exported again."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml

from integration.podium_cli.conftest import CommandLine
from podium.registry.v1 import tool_registry_service_pb2 as tools_pb2
from podium_kit.client.gateway import Gateway
from podium_kit.client.rejections import Rejected
from podium_operations.controller.kinds import KINDS, Superseded

TOOL = {
    "kind": "http",
    "description": "Looks up a part by its number.",
    "sku": "own/parts",
    "side_effect": "pure",
    "parameters": {
        "type": "object",
        "properties": {"number": {"type": "string"}},
        "required": ["number"],
        "additionalProperties": False,
    },
    "connection": {"http": {"method": "GET", "url_template": "https://parts.example.com/{number}"}},
}
OBJECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "pricelists": (
        "own",
        {
            "prices": [
                {
                    "sku": "own/parts",
                    "currency_code": "USD",
                    "components": [{"dimension": "call", "unit_price": "0.0001"}],
                }
            ]
        },
    ),
    "tools": ("find-part", TOOL),
    "policies": ("thrifty", {"preset": "cost-first", "price_ceiling": "0.05 USD"}),
    "budgets": (
        "kubernetes-day",
        {"scope": "tenant", "window": "day", "hard_limit": "50 USD", "soft_limits": ["40 USD"]},
    ),
}
APPLY = {kind.plural: kind.apply for kind in KINDS}
END = {kind.plural: kind.end for kind in KINDS}
PLURALS = {"Tool": "tools", "Policy": "policies", "PriceList": "pricelists", "Budget": "budgets"}


@pytest_asyncio.fixture
async def gateway(podium: CommandLine) -> AsyncIterator[Gateway]:
    connection = json.loads((podium.state_dir / "connection.json").read_text())
    async with Gateway(connection["gateway_url"], connection["api_key"]) as gateway:
        yield gateway


async def test_objects_are_applied_once_mended_exported_and_ended(
    podium: CommandLine, gateway: Gateway
) -> None:
    for plural, (name, spec) in OBJECTS.items():
        assert (await APPLY[plural](gateway, name, spec)).changed, plural
    for plural, (name, spec) in OBJECTS.items():
        again = await APPLY[plural](gateway, name, spec)
        assert not again.changed, plural
    await assert_the_export_changes_nothing(podium, gateway)
    await assert_drift_is_mended(gateway)
    await assert_ended(gateway)


async def assert_the_export_changes_nothing(podium: CommandLine, gateway: Gateway) -> None:
    ended = podium("export", "--as", "kubernetes")
    assert ended.returncode == 0, ended.stderr
    objects = list(yaml.safe_load_all(ended.stdout))
    names = {(one["kind"], one["metadata"]["name"]) for one in objects}
    assert {
        ("Tool", "find-part"),
        ("Policy", "thrifty"),
        ("PriceList", "own"),
        ("Budget", "kubernetes-day"),
    } <= names
    # Shared tools and presets are everybody's.
    assert not {("Tool", "calculator"), ("Policy", "balanced")} & names
    for one in objects:
        assert one["apiVersion"] == "podium.dev/v1alpha1"
        plural = PLURALS[one["kind"]]
        applied = await APPLY[plural](gateway, one["metadata"]["name"], one["spec"])
        assert not applied.changed, one


async def assert_drift_is_mended(gateway: Gateway) -> None:
    changed = {**TOOL, "description": "Somebody changed it by hand."}
    by_hand = await APPLY["tools"](gateway, "find-part", changed)
    mended = await APPLY["tools"](gateway, "find-part", TOOL)
    assert mended.changed
    assert mended.status["digest"] != by_hand.status["digest"]
    name, spec = OBJECTS["policies"]
    assert (await APPLY["policies"](gateway, name, {**spec, "price_ceiling": "1 USD"})).changed
    with pytest.raises(Superseded, match="version 2, newer than version 1"):
        await APPLY["policies"](gateway, name, spec)
    name, spec = OBJECTS["budgets"]
    raised = await APPLY["budgets"](gateway, name, {**spec, "hard_limit": "60 USD"})
    assert raised.changed
    assert (await APPLY["budgets"](gateway, name, spec)).changed
    # An amount is a number: written otherwise, it is the same.
    assert not (await APPLY["budgets"](gateway, name, {**spec, "hard_limit": "50.00 USD"})).changed


async def assert_ended(gateway: Gateway) -> None:
    for plural in ("tools", "budgets"):
        name, spec = OBJECTS[plural]
        end = END[plural]
        assert end
        await end(gateway, name, spec)
        # Ending what is gone already is as good.
        await end(gateway, f"never-{name}", spec)
    with pytest.raises(Rejected, match="is deprecated"):
        await gateway.get("/v1/tools/find_part", tools_pb2.GetToolResponse)
    assert (await APPLY["tools"](gateway, "find-part", TOOL)).changed
    name, spec = OBJECTS["budgets"]
    assert (await APPLY["budgets"](gateway, name, spec)).status["closed"]


async def test_what_the_registry_rejects_keeps_its_own_reason(gateway: Gateway) -> None:
    nowhere = {**TOOL, "connection": {"http": {"method": "GET", "url_template": "no url"}}}
    with pytest.raises(Rejected) as rejected:
        await APPLY["tools"](gateway, "lost", nowhere)
    assert rejected.value.reason
    assert rejected.value.cause
