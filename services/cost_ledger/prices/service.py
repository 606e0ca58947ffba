from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

from cost_ledger.errors import ForeignPrice
from cost_ledger.prices.models import HistoryKey, PriceHistory, PriceVersion
from cost_ledger.prices.specs import Placement, PriceSpec
from cost_ledger.prices.store import PriceDeletion, PriceStore
from podium_kit.metering import is_own
from podium_kit.rpc.identity import Scope, current_identity

# How late a price published through another replica may take effect here.
CACHE_LIFETIME_S = 2.0
CACHE_SIZE_MAX = 20_000


@dataclass(frozen=True, slots=True)
class PriceQuestion:
    """Asks what a call of a service class in a region costs; None times mean now.

    `known_at` leaves out what was learned later, whenever it holds.
    """

    at: datetime | None = None
    known_at: datetime | None = None
    service_class: str = ""
    region: str = ""


class PriceBook:
    """Prices with a cache so short-lived that a new price takes effect within seconds."""

    def __init__(self, store: PriceStore, deletion: PriceDeletion) -> None:
        self._store = store
        self._deletion = deletion
        self._cache: dict[HistoryKey, PriceHistory] = {}
        self._revision = 0
        self._fresh_until = 0.0

    async def create(self, specs: list[PriceSpec], validate_only: bool) -> list[Placement]:
        placements = await self._store.create(specs, validate_only)
        self._cache.clear()
        return placements

    async def delete(self, tenants: Sequence[str], ids: list[str]) -> list[PriceVersion]:
        """Deletes unused versions, all or none; a tenant's own where no others may be deleted.

        Raises NoSuchPrice, PriceUsed, ForeignPrice.
        """
        caller = current_identity()
        if not caller.may(Scope.PLATFORM_ADMIN):
            for version in await self._deletion.find(tenants, ids):
                if not (is_own(version.sku) and version.tenant == caller.tenant):
                    raise ForeignPrice(version.sku, caller.tenant)
        deleted = await self._deletion.delete(tenants, ids)
        self._cache.clear()
        return deleted

    async def page(
        self,
        tenant: str,
        sku_prefix: str,
        after: tuple[str, str],
        limit: int,
        known_at: datetime | None = None,
    ) -> list[PriceVersion]:
        return await self._store.page(tenant, sku_prefix, after, limit, known_at)

    async def effective(
        self, tenant: str, skus: list[str], asked: PriceQuestion
    ) -> dict[str, PriceVersion]:
        """Prices by SKU; a SKU without a known price is left out."""
        keys = {(tenant, sku) for sku in skus}
        if asked.known_at:
            histories = await self._store.histories(keys, asked.known_at)
        else:
            histories = await self.histories(keys)
        at = asked.at or datetime.now(UTC)
        found = {
            sku: histories[tenant, sku].effective(at, asked.service_class, asked.region)
            for sku in skus
        }
        return {sku: version for sku, version in found.items() if version}

    async def histories(self, keys: set[HistoryKey]) -> dict[HistoryKey, PriceHistory]:
        await self._forget_if_changed()
        known = {key: self._cache[key] for key in keys if key in self._cache}
        missing = keys - known.keys()
        return known | (await self._fetch(missing) if missing else {})

    async def _forget_if_changed(self) -> None:
        now = monotonic()
        if now < self._fresh_until:
            return
        revision = await self._store.revision()
        if revision != self._revision:
            self._cache.clear()
        self._revision, self._fresh_until = revision, now + CACHE_LIFETIME_S

    async def _fetch(self, keys: set[HistoryKey]) -> dict[HistoryKey, PriceHistory]:
        revision = self._revision
        found = await self._store.histories(keys)
        if len(self._cache) > CACHE_SIZE_MAX:
            self._cache.clear()
        # What was read before a newer revision was seen may be older than that.
        if revision == self._revision:
            self._cache |= found
        return found
