"""Open requests of a tenant over all replicas: slots leased from PostgreSQL.

Each replica leases slots and hands them to requests. The slots of all replicas never exceed
the limit, so neither do open requests. Undercount: a replica keeps up to an eighth of the
limit spare, so that busy tenants do not ask the database for every request; limits below 16
are exact. The slots of a replica that died come back when its lease ends.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from gateway.errors import TooManyRequests
from gateway.limits.models import TenantLimits
from podium_kit.rpc.errors import Unavailable

LEASE_S = 30.0
RENEW_INTERVAL_S = 10.0
SPARE_DIVISOR = 16


class SlotStore(Protocol):
    """The slots of all replicas; every method concerns one replica's."""

    async def take(self, tenant: str, wanted: int, total: int, lease_s: float) -> int: ...
    async def keep(self, tenant: str, slots: int) -> None: ...
    async def renew(self, lease_s: float) -> dict[str, int]: ...


class OpenRequests:
    def __init__(self, store: SlotStore) -> None:
        self._store = store
        self._open: Counter[str] = Counter()
        self._slots: Counter[str] = Counter()
        self._leasing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @asynccontextmanager
    async def slot(self, tenant: str, limits: TenantLimits) -> AsyncIterator[None]:
        spare = limits.concurrency // SPARE_DIVISOR
        async with self._leasing[tenant]:
            if self._open[tenant] >= self._slots[tenant]:
                await self._lease(tenant, limits, spare)
            self._open[tenant] += 1
        try:
            yield
        finally:
            self._open[tenant] -= 1
            # A request whose client went away is cancelled; its slot goes back all the same.
            await asyncio.shield(self._return(tenant, spare))

    async def renew(self) -> None:
        """Keeps the leases of this replica alive; to be called every RENEW_INTERVAL_S."""
        # What the database says counts: the leases of a process that was paused are gone.
        self._slots = Counter(await self._store.renew(LEASE_S))

    async def close(self) -> None:
        for tenant in list(self._slots):
            await self._store.keep(tenant, 0)

    async def _lease(self, tenant: str, limits: TenantLimits, spare: int) -> None:
        self._slots[tenant] = await self._store.take(tenant, 1 + spare, limits.concurrency, LEASE_S)
        if self._open[tenant] >= self._slots[tenant]:
            raise TooManyRequests(
                f"your tenant already has {limits.concurrency} requests open; "
                "wait for one to finish, or ask the platform's admin for more",
                retry_after_s=1,
            )

    async def _return(self, tenant: str, spare: int) -> None:
        async with self._leasing[tenant]:
            if self._slots[tenant] - self._open[tenant] > 2 * spare:
                self._slots[tenant] = self._open[tenant] + spare
                # The request is answered by now; the next renewal counts what was kept.
                with suppress(Unavailable):
                    await self._store.keep(tenant, self._slots[tenant])
