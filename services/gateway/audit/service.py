"""The audit log: every administrative change, who asked for it and what became of it.

An entry is written before the change and its outcome after it, both append-only. So no
change happens without an entry (docs/adr/0023); an entry without an outcome says that the
gateway ended in between.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from uuid_utils import uuid7

from gateway.audit.models import AuditEntry, AuditFilter, AuditRecord, Change, Json
from gateway.audit.redaction import redacted
from gateway.origin import current_origin, mark_audited
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import current_identity


class AuditLogStore(Protocol):
    async def begin(self, entry: AuditEntry) -> None: ...
    async def finish(self, entry_id: str, rejection: str, after: Json | None) -> None: ...
    async def list(
        self, tenant: str, keep: AuditFilter, before_id: str, limit: int
    ) -> list[AuditRecord]: ...


class AuditLog:
    def __init__(self, store: AuditLogStore) -> None:
        self._store = store

    @asynccontextmanager
    async def change(
        self, action: str, resource: str, requested: Json, before: Json | None = None
    ) -> AsyncIterator[Change]:
        """Surrounds one change made by the current caller; a rejected one is kept as well."""
        entry, change = _entry(action, resource, requested, before), Change()
        await self._store.begin(entry)
        try:
            yield change
        except DomainError as error:
            mark_audited()
            await self._store.finish(entry.id, error.reason, None)
            raise
        await self._store.finish(entry.id, "", redacted(change.after))

    async def list(
        self, tenant: str, keep: AuditFilter, before_id: str, limit: int
    ) -> list[AuditRecord]:
        return await self._store.list(tenant, keep, before_id, limit)


def _entry(action: str, resource: str, requested: Json, before: Json | None) -> AuditEntry:
    identity, origin = current_identity(), current_origin()
    return AuditEntry(
        id=str(uuid7()),
        tenant=identity.tenant,
        subject=identity.subject,
        credential=origin.credential,
        action=action,
        resource=resource,
        request_id=origin.request_id,
        requested=redacted(requested),
        before=redacted(before),
    )
