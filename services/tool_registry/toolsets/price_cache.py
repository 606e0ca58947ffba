import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cachetools import LRUCache

from tool_registry.errors import PricesUnavailable
from tool_registry.models import Price

TENANTS_KEPT = 1_000
# Who imports the price that was missing tries at once.
UNKNOWN_LIFETIME_S = 1.0


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
