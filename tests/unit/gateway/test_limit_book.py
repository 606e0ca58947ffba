import asyncio
from collections.abc import Collection
from dataclasses import replace

from callers import make_identity
from gateway.audit.models import AuditEntry, AuditFilter, AuditRecord, Json
from gateway.audit.service import AuditLog
from gateway.limits.models import TenantLimits
from gateway.limits.service import LimitBook
from podium_kit.rpc.identity import acting_as

DEFAULTS = TenantLimits(requests_per_s=1.0, burst=2, concurrency=3, running_episodes=4)


class ReadTogether:
    def __init__(self) -> None:
        self.rows: dict[str, TenantLimits] = {}
        self._both = asyncio.Barrier(2)

    async def get(self, tenant: str) -> TenantLimits | None:
        await self._both.wait()
        return self.rows.get(tenant)

    async def put(
        self, tenant: str, limits: TenantLimits, changed: Collection[str]
    ) -> TenantLimits:
        known = self.rows.get(tenant, limits)
        stored = replace(known, **{name: getattr(limits, name) for name in changed})
        self.rows[tenant] = stored
        return stored

    async def delete(self, tenant: str) -> None: ...


class Entries:
    def __init__(self) -> None:
        self.after: list[Json | None] = []

    async def begin(self, entry: AuditEntry) -> None: ...

    async def finish(self, entry_id: str, rejection: str, after: Json | None) -> None:
        self.after.append(after)

    async def list(
        self, tenant: str, keep: AuditFilter, before_id: str, limit: int
    ) -> list[AuditRecord]:
        return []


async def test_two_changes_at_once_are_both_kept() -> None:
    store, entries = ReadTogether(), Entries()
    book = LimitBook(store, AuditLog(entries), DEFAULTS, cache_s=0)
    with acting_as(make_identity()):
        await asyncio.gather(book.change("acme", {"burst": 9}), book.change("acme", {"files": 7}))
    assert store.rows["acme"] == replace(DEFAULTS, burst=9, files=7)
    last = entries.after[-1]
    assert last and (last["burst"], last["files"]) == (9, 7)
