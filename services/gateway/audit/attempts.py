"""Rejected attempts: keys that are not valid, and callers who lack a scope or a role.

They are counted in memory and written every minute, a few entries for each tenant at most, so that
no one fills the log by trying. Changes that were rejected have entries of their own.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from uuid_utils import uuid7

from gateway.audit.models import AuditEntry, Claimant
from gateway.audit.redaction import redacted
from gateway.audit.service import AuditLogStore
from podium_kit.rpc.errors import Unavailable
from podium_kit.text import storable

ATTEMPTS_INTERVAL_S = 60.0
ENTRIES_PER_TENANT = 20
TENANTS_MAX = 10_000
PATH_CHARACTERS_MAX = 200
ACTION = "Attempt"
# What is beyond the entries of a tenant is counted in one.
OTHERS = "OTHERS"


@dataclass
class _Counted:
    """Attempts alike: the first of them, and how many there were."""

    request: str
    request_id: str
    since: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    count: int = 0


Kind = tuple[Claimant, str]


class RejectedAttempts:
    """Counts attempts of known tenants; what names no tenant is no one's to read."""

    def __init__(self, store: AuditLogStore) -> None:
        self._store = store
        self._counted: dict[str, dict[Kind, _Counted]] = {}

    def note(self, who: Claimant, rejection: str, request: str, request_id: str) -> None:
        if who.tenant not in self._counted and len(self._counted) == TENANTS_MAX:
            return
        kinds = self._counted.setdefault(who.tenant, {})
        kind = who, rejection
        if kind not in kinds and len(kinds) >= ENTRIES_PER_TENANT:
            kind = Claimant(who.tenant, "", ""), OTHERS
        # A path may hold a NUL, and what cannot be stored would keep the others from it.
        first = _Counted(storable(request[:PATH_CHARACTERS_MAX]), request_id)
        kinds.setdefault(kind, first).count += 1

    async def write(self) -> None:
        """Writes what was counted; to be called every ATTEMPTS_INTERVAL_S.

        What the database does not take now is written the next time.
        """
        for kinds in list(self._counted.values()):
            for kind, attempts in list(kinds.items()):
                del kinds[kind]
                try:
                    await self._write(kind, attempts)
                except Unavailable:
                    attempts.count += kinds[kind].count if kind in kinds else 0
                    kinds[kind] = attempts
                    raise
        self._counted = {tenant: kinds for tenant, kinds in self._counted.items() if kinds}

    async def _write(self, kind: Kind, attempts: _Counted) -> None:
        who, rejection = kind
        entry = _entry(who, attempts)
        await self._store.begin(entry)
        await self._store.finish(entry.id, rejection, None)


def _entry(who: Claimant, attempts: _Counted) -> AuditEntry:
    return AuditEntry(
        id=str(uuid7()),
        tenant=who.tenant,
        subject=who.subject,
        credential=who.credential,
        action=ACTION,
        resource=redacted(attempts.request),
        request_id=attempts.request_id,
        requested={"attempts": attempts.count, "since": attempts.since},
        before=None,
    )
