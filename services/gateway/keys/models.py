from dataclasses import dataclass
from datetime import datetime

from gateway.audit.models import Claimant
from gateway.origin import API_KEY
from podium_kit.rpc.identity import Identity, Role, groups_of, scopes_of


@dataclass(frozen=True)
class ApiKey:
    """An issued key, without its secret."""

    id: str
    tenant: str
    subject: str
    scopes: frozenset[str]
    secret_hash: bytes
    create_time: datetime
    expire_time: datetime | None = None
    revoke_time: datetime | None = None
    roles: frozenset[Role] = frozenset()
    # Written every few seconds, so it may be a little behind.
    last_used_time: datetime | None = None
    # The key that rotation put in this one's place.
    successor_id: str | None = None
    teams: frozenset[str] = frozenset()
    # The first key of those that rotations put in each other's place; policies bind all of them
    # by it. None in keys of before there was one.
    origin_id: str | None = None
    agents: frozenset[str] = frozenset()
    # Who had its text besides the subject: they created or rotated it.
    creators: frozenset[str] = frozenset()

    def identity(self) -> Identity:
        """Returns the key's identity; the scopes of a role are those of now, not of its issue."""
        groups = groups_of(self.roles, self.teams, self.agents, self.creators - {self.subject})
        groups |= {f"key:{self.origin_id or self.id}"}
        return Identity(self.tenant, self.subject, self.scopes | scopes_of(self.roles), groups)

    @property
    def claimant(self) -> Claimant:
        return Claimant(self.tenant, self.subject, f"{API_KEY}{self.id}")

    def shown(self) -> dict[str, object]:
        return {
            "id": self.id,
            "subject": self.subject,
            "scopes": sorted(self.scopes),
            "roles": sorted(self.roles),
            "teams": sorted(self.teams),
            "agents": sorted(self.agents),
            "expire_time": self.expire_time and self.expire_time.isoformat(),
            "revoke_time": self.revoke_time and self.revoke_time.isoformat(),
        }


@dataclass(frozen=True)
class KeyRequest:
    tenant: str
    subject: str
    scopes: frozenset[str] = frozenset()
    roles: frozenset[Role] = frozenset()
    teams: frozenset[str] = frozenset()
    expire_time: datetime | None = None
    # Of the key it takes the place of.
    origin_id: str | None = None
    agents: frozenset[str] = frozenset()
    creators: frozenset[str] = frozenset()
