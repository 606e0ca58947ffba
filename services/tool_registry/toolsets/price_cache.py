import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

import grpc
from cachetools import LRUCache

from podium.ledger.v1 import budget_service_pb2 as budget_pb
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium.ledger.v1.budget_service_pb2_grpc import BudgetServiceStub
from podium.ledger.v1.price_book_service_pb2_grpc import PriceBookServiceStub
from podium_kit.metering import Dimension
from podium_kit.rpc.errors import DeadlineExceeded, NotFound, Unavailable
from podium_kit.rpc.status import answered
from podium_kit.wire.usage import dimension_from_proto
from tool_registry.errors import PricesUnavailable
from tool_registry.models import Price, PriceComponent

TENANTS_KEPT = 1_000
# Who imports the price that was missing tries at once.
UNKNOWN_LIFETIME_S = 1.0
SKUS_PER_CALL = 1000
TIMEOUT_S = 5.0


class PriceSource(Protocol):
    async def prices(self, skus: frozenset[str]) -> dict[str, Price]: ...


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices by SKU. Compared by identity: the same object means nothing changed."""

    by_sku: Mapping[str, Price]


@dataclass
class _TenantPrices:
    skus: frozenset[str] = frozenset()
    prices: Prices = field(default_factory=lambda: Prices({}))
    until: float = 0.0
    failed_at: float = -math.inf
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


class PriceCache:
    """Asks once per tenant and lifetime, however many wait. A failure is theirs as well, and not
    remembered for others."""

    def __init__(self, source: PriceSource, lifetime_s: float) -> None:
        self._source = source
        self._lifetime_s = lifetime_s
        self._tenants: LRUCache[str, _TenantPrices] = LRUCache(TENANTS_KEPT)

    async def effective(self, tenant: str, skus: frozenset[str]) -> Prices:
        known = self._tenants.get(tenant)
        if known is None:
            known = self._tenants[tenant] = _TenantPrices()
        began = time.monotonic()
        async with known.asking:
            if not skus <= known.skus or known.until <= time.monotonic():
                # Each in its turn, those who wait would wait as often as there are before them.
                if known.failed_at > began:
                    raise PricesUnavailable
                await self._refresh(known, skus)
        return known.prices

    async def _refresh(self, known: _TenantPrices, skus: frozenset[str]) -> None:
        skus |= known.skus
        before = known.prices.by_sku
        try:
            now = await self._source.prices(skus)
        except PricesUnavailable:
            known.failed_at = time.monotonic()
            raise
        if now != before:
            # The same object means that nothing changed, so that nothing is described again.
            kept = {sku: before[sku] if before.get(sku) == new else new for sku, new in now.items()}
            known.prices = Prices(kept)
        known.skus = skus
        lifetime_s = self._lifetime_s if skus <= now.keys() else UNKNOWN_LIFETIME_S
        known.until = time.monotonic() + min(lifetime_s, self._lifetime_s)


class EffectivePrices:
    """A price that is not known is missing, never zero."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = PriceBookServiceStub(channel)

    async def prices(self, skus: frozenset[str]) -> dict[str, Price]:
        ordered = sorted(skus)
        parts = [ordered[at : at + SKUS_PER_CALL] for at in range(0, len(ordered), SKUS_PER_CALL)]
        found = await asyncio.gather(*(self._ask(part) for part in parts))
        return {sku: price for prices in found for sku, price in prices.items()}

    async def _ask(self, skus: list[str]) -> dict[str, Price]:
        request = pb.GetEffectivePricesRequest(skus=skus)
        try:
            reply = await answered(self._stub.GetEffectivePrices(request, timeout=TIMEOUT_S))
        except (Unavailable, DeadlineExceeded) as error:
            raise PricesUnavailable from error
        return {sku: _price(price.spec) for sku, price in reply.prices.items()}


class LedgerBudgets:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = BudgetServiceStub(channel)

    async def missing(self, budget_ids: Sequence[str]) -> list[str]:
        found = await asyncio.gather(*map(self._exists, budget_ids))
        return [each for each, exists in zip(budget_ids, found, strict=True) if not exists]

    async def _exists(self, budget_id: str) -> bool:
        request = budget_pb.GetBudgetRequest(id=budget_id)
        try:
            await answered(self._stub.GetBudget(request, timeout=TIMEOUT_S))
        except NotFound:
            return False
        except (Unavailable, DeadlineExceeded) as error:
            raise PricesUnavailable from error
        return True


def _price(spec: pb.PriceSpec) -> Price:
    """The most expensive band and hour of each dimension: an upper bound."""
    most_expensive: dict[Dimension, PriceComponent] = {}
    for part in map(_component, spec.components):
        known = most_expensive.get(part.dimension)
        if known is None or part.of_one_unit > known.of_one_unit:
            most_expensive[part.dimension] = part
    return Price(spec.currency_code, tuple(most_expensive.values()))


def _component(part: pb.PriceComponent) -> PriceComponent:
    dimension: Dimension = dimension_from_proto(part.dimension)
    return PriceComponent(dimension, Decimal(part.unit_price), Decimal(part.per or "1"))
