"""How much of the gateway a tenant may use: requests per second and open requests."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol

from cachetools import TTLCache

from gateway.audit import AuditLog
from gateway.errors import InvalidLimits

TENANTS_MAX = 10_000


@dataclass(frozen=True)
class TenantLimits:
    """Over all replicas of the gateway together."""

    # Refill of the bucket, in requests per second.
    requests_per_s: float
    # Requests that may come at once: the size of the bucket.
    burst: int
    # Open requests; a stream is open until its end, a chat until its episode's.
    concurrency: int

    def __post_init__(self) -> None:
        if not (self.requests_per_s > 0 and self.burst >= 1 and self.concurrency >= 1):
            raise InvalidLimits


class LimitsStore(Protocol):
    """Where the limits of tenants are kept."""

    async def get(self, tenant: str) -> TenantLimits | None: ...
    async def put(self, tenant: str, limits: TenantLimits) -> None: ...
    async def delete(self, tenant: str) -> None: ...


class LimitBook:
    """Each tenant's limits, or else the defaults; remembered a few seconds."""

    def __init__(
        self, store: LimitsStore, log: AuditLog, defaults: TenantLimits, cache_s: float
    ) -> None:
        self._store = store
        self._log = log
        self._defaults = defaults
        self._cache: TTLCache[str, TenantLimits] = TTLCache(TENANTS_MAX, cache_s)

    async def of(self, tenant: str) -> TenantLimits:
        """What holds for the tenant now."""
        if known := self._cache.get(tenant):
            return known
        self._cache[tenant] = limits = await self._store.get(tenant) or self._defaults
        return limits

    async def change(
        self, tenant: str, changed: Callable[[TenantLimits], TenantLimits] | None
    ) -> TenantLimits:
        """Changes the tenant's limits; None goes back to the defaults. Raises InvalidLimits."""
        before = await self._store.get(tenant) or self._defaults
        after = self._defaults if changed is None else changed(before)
        requested = {"tenant": tenant, "limits": asdict(after)}
        async with self._log.change("ChangeLimits", tenant, requested, asdict(before)) as change:
            if changed is None:
                await self._store.delete(tenant)
            else:
                await self._store.put(tenant, after)
            change.after = asdict(after)
        self._cache.pop(tenant, None)
        return after
