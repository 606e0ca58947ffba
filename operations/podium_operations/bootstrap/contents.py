"""Fills a platform on a cluster through its own API: prices, tools, documents, policies, budgets.

Everything is checked before the first change is made, and what is there already is left alone.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import Message

from podium.ledger.v1 import budget_service_pb2 as budgets_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb2
from podium.registry.v1 import policy_pb2, policy_service_pb2, tool_pb2
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway
from podium_operations.bootstrap.bundled_contents import (
    BundledTools,
    add_missing_prices,
    bundled_prices,
    bundled_tools,
    put_library,
)
from podium_operations.bootstrap.cluster_objects import ClusterObjects
from podium_operations.bootstrap.settings import Contents
from podium_operations.documents import message_of

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)
TOOLS_KEY, LIBRARY_KEY = "tools.json", "library.json"
# The tag by which the chart marks the tools of its experts.
EXPERT = "expert"


@dataclass(frozen=True)
class Documents:
    prices: list[prices_pb2.PriceSpec]
    tools: list[tool_pb2.ToolSpec]
    policies: list[policy_pb2.PolicySpec]
    budgets: list[budgets_pb2.Budget]


def read_documents(contents: Contents) -> Documents:
    documents = Documents(
        _read("bootstrap.prices.list", contents.prices, prices_pb2.PriceSpec),
        _read("experts", contents.tools, tool_pb2.ToolSpec),
        _read("bootstrap.policies", contents.policies, policy_pb2.PolicySpec),
        _read("bootstrap.budgets", contents.budgets, budgets_pb2.Budget),
    )
    priced = {spec.sku for spec in documents.prices}
    priced |= {spec.sku for spec in bundled_prices()} if contents.bundled_prices else set()
    sku = contents.model_sku
    if documents.budgets and sku not in priced:
        what = f"no price of {sku}" if sku else "no SKU of the model"
        raise UsageError(
            f"bootstrap.budgets holds a budget, and there is {what}: calls of the model would "
            "have no price, so the budget could not hold them",
            "set inference.sku, and its price in bootstrap.prices.list: {sku: ..., currencyCode: "
            "USD, components: [{dimension: input_fresh, unitPrice: '0.2', per: '1000000'}, ...]}",
        )
    return documents


def _read(where: str, values: Sequence[dict[str, Any]], kind: type[M]) -> list[M]:
    return [
        message_of(Path(f"{where}[{number}]"), each, kind) for number, each in enumerate(values)
    ]


class ConfigMapSpecs:
    def __init__(self, objects: ClusterObjects, name: str) -> None:
        self._objects = objects
        self._name = name

    async def read(self) -> dict[str, dict[str, Any]]:
        return dict(json.loads(await self._value(TOOLS_KEY)))

    async def write(self, specs: dict[str, dict[str, Any]]) -> None:
        await self._objects.write_config_map(self._name, {TOOLS_KEY: json.dumps(specs)})

    async def library(self) -> dict[str, str]:
        return dict(json.loads(await self._value(LIBRARY_KEY)))

    async def write_library(self, digests: Mapping[str, str]) -> None:
        await self._objects.write_config_map(self._name, {LIBRARY_KEY: json.dumps(digests)})

    async def _value(self, key: str) -> str:
        return (await self._objects.config_map(self._name) or {}).get(key, "{}")


class PlatformFiller:
    """Makes what is missing and says what it made. Every method raises Rejected, Unreachable."""

    def __init__(self, contents: Contents, documents: Documents, objects: ClusterObjects) -> None:
        self._contents = contents
        self._documents = documents
        self._kept = ConfigMapSpecs(objects, contents.bundled_tools_map)

    async def fill_platform(self, gateway: Gateway) -> list[str]:
        # Prices first: a tool's terms quote them.
        skus = await self._listed_prices(gateway)
        if self._contents.bundled_prices:
            skus += await add_missing_prices(gateway, bundled_prices())
        made = [f"{len(skus)} list prices"] if skus else []
        made += await self._fill_tools(gateway)
        await self._warn_of_unpriced_model(gateway)
        return made

    async def fill_tenant(self, gateway: Gateway) -> list[str]:
        missing = await self._missing_budgets(gateway)
        specs = self._documents.policies
        changed = [spec for spec in specs if await _creates(gateway, spec, validate_only=True)]
        for spec in changed:
            await _creates(gateway, spec, validate_only=False)
        for budget in missing:
            await gateway.post(
                "/v1/budgets",
                budgets_pb2.CreateBudgetRequest(budget=budget),
                budgets_pb2.CreateBudgetResponse,
            )
        return [
            *[f"policy {spec.name}" for spec in changed],
            *[f"budget {budget.id}" for budget in missing],
        ]

    async def _fill_tools(self, gateway: Gateway) -> list[str]:
        tools = BundledTools(gateway, self._kept)
        gone = await tools.deprecate_other(EXPERT, {spec.name for spec in self._documents.tools})
        made = await tools.register([*self._bundled_tools(), *self._documents.tools])
        return [
            *([f"{len(made)} tools: {', '.join(sorted(made))}"] if made else []),
            *(f"deprecation of {name}, which is no expert of the values any more" for name in gone),
        ]

    def _bundled_tools(self) -> list[tool_pb2.ToolSpec]:
        tools = bundled_tools() if self._contents.bundled_tools else []
        if self._contents.runs_code:
            return tools
        return [spec for spec in tools if spec.kind != tool_pb2.TOOL_KIND_CODE]

    async def _listed_prices(self, gateway: Gateway) -> list[str]:
        specs = self._documents.prices
        if not specs:
            return []
        reply = await _post_prices(gateway, specs, validate_only=True)
        changed = [
            spec
            for spec, difference in zip(specs, reply.differences, strict=True)
            if difference.change != prices_pb2.PRICE_CHANGE_UNCHANGED
        ]
        if changed:
            await _post_prices(gateway, changed, validate_only=False)
        return [spec.sku for spec in changed]

    async def fill_library(self, gateway: Gateway) -> list[str]:
        if not self._contents.library:
            return []
        known = await self._kept.library()
        if put := await put_library(gateway, known):
            await self._kept.write_library(known | put)
        return [f"corpus {name}" for name in put]

    async def _missing_budgets(self, gateway: Gateway) -> list[budgets_pb2.Budget]:
        if not self._documents.budgets:
            return []
        found = await gateway.all("/v1/budgets", budgets_pb2.ListBudgetsResponse)
        known = {each.budget.id for each in found.statuses}
        return [budget for budget in self._documents.budgets if budget.id not in known]

    async def _warn_of_unpriced_model(self, gateway: Gateway) -> None:
        sku = self._contents.model_sku
        if not sku:
            log.warning("inference.sku is empty: calls of the model have no price")
            return
        reply = await gateway.get(
            "/v1/prices/effective", prices_pb2.GetEffectivePricesResponse, skus=sku
        )
        if sku not in reply.prices:
            log.warning(
                "%s has no price, so calls of the model have none: add it to bootstrap.prices.list",
                sku,
            )


async def _post_prices(
    gateway: Gateway, specs: Sequence[prices_pb2.PriceSpec], *, validate_only: bool
) -> prices_pb2.CreatePricesResponse:
    request = prices_pb2.CreatePricesRequest(specs=specs, validate_only=validate_only)
    return await gateway.post("/v1/prices", request, prices_pb2.CreatePricesResponse)


async def _creates(gateway: Gateway, spec: policy_pb2.PolicySpec, *, validate_only: bool) -> bool:
    request = policy_service_pb2.CreatePolicyRequest(spec=spec, validate_only=validate_only)
    reply = await gateway.post("/v1/policies", request, policy_service_pb2.CreatePolicyResponse)
    return reply.created
