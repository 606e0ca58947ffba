from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
class Claimant:
    tenant: str
    subject: str
    credential: str


@dataclass(frozen=True)
class AuditRecord(AuditEntry):
    time: datetime
    # None while the outcome is unknown, "" when the change was made, otherwise the reason.
    rejection: str | None
    after: Json | None


@dataclass(frozen=True)
class AuditFilter:
    """A filter of entries; unset fields keep everything."""

    subject: str = ""
    action: str = ""
    resource: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass
class Change:
    """A change in progress; the code that makes it sets `after`, the result."""

    after: Json | None = None
