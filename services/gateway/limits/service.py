from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, replace
from typing import Any, Protocol

from cachetools import TTLCache

from gateway.audit.service import AuditLog
from gateway.limits.models import TenantLimits

TENANTS_MAX = 10_000


# The limits of the tenant whose request is being served.
_current: ContextVar[TenantLimits] = ContextVar("tenant_limits")


@contextmanager
def holding_to(limits: TenantLimits) -> Iterator[None]:
    token = _current.set(limits)
    try:
        yield
    finally:
        _current.reset(token)


def current_limits() -> TenantLimits:
    return _current.get()


class LimitsStore(Protocol):
    async def get(self, tenant: str) -> TenantLimits | None: ...
    async def put(
        self, tenant: str, limits: TenantLimits, changed: Collection[str]
    ) -> TenantLimits: ...
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
        if known := self._cache.get(tenant):
            return known
        self._cache[tenant] = limits = await self._store.get(tenant) or self._defaults
        return limits

    async def change(self, tenant: str, changes: Mapping[str, Any] | None) -> TenantLimits:
        """Changes those of the tenant's limits that are given, whatever is changed at the same
        time; None goes back to the defaults. Raises InvalidLimits.
        """
        before = await self._store.get(tenant) or self._defaults
        after = self._defaults if changes is None else replace(before, **changes)
        requested = {"tenant": tenant, "limits": asdict(after)}
        async with self._log.change("ChangeLimits", tenant, requested, asdict(before)) as change:
            if changes is None:
                await self._store.delete(tenant)
            else:
                new = replace(self._defaults, **changes)
                after = await self._store.put(tenant, new, changes.keys())
            change.after = asdict(after)
        self._cache.pop(tenant, None)
        return after
