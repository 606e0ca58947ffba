"""The audit log: every administrative change, who asked for it and what became of it.

An entry is written before the change and its outcome after it, both append-only. So no
change happens without an entry (docs/adr/0023); an entry without an outcome says that the
gateway ended in between.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from uuid_utils import uuid7

from gateway.audit.redaction import redacted
from gateway.origin import current_origin
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import current_identity

Json = dict[str, Any]


@dataclass(frozen=True)
class AuditEntry:
    """One change, or one attempt at it. JSON values carry no secrets."""

    id: str
    tenant: str
    subject: str
    credential: str
    action: str
    resource: str
    request_id: str
    requested: Json
    before: Json | None


@dataclass(frozen=True)
class AuditRecord(AuditEntry):
    """An entry as it is read: with its time and its outcome."""

    time: datetime
    # None while the outcome is unknown, "" when the change was made, otherwise the reason.
    rejection: str | None
    after: Json | None


@dataclass(frozen=True)
class AuditFilter:
    """What to list; unset fields keep everything."""

    subject: str = ""
    action: str = ""
    resource: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass
class Change:
    """A change that is being made; whoever makes it says what it led to."""

    after: Json | None = None


class AuditStore(Protocol):
    """Where entries are kept."""

    async def begin(self, entry: AuditEntry) -> None: ...
    async def finish(self, entry_id: str, rejection: str, after: Json | None) -> None: ...
    async def list(
        self, tenant: str, keep: AuditFilter, before_id: str, limit: int
    ) -> list[AuditRecord]: ...


class AuditLog:
    """Writes and lists entries."""

    def __init__(self, store: AuditStore) -> None:
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
            await self._store.finish(entry.id, error.reason, None)
            raise
        await self._store.finish(entry.id, "", redacted(change.after))

    async def list(
        self, tenant: str, keep: AuditFilter, before_id: str, limit: int
    ) -> list[AuditRecord]:
        """The tenant's entries, newest first."""
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
