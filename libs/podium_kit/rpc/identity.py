"""The identity of a caller, and what its roles and scopes allow.

The tenant is read from here and from nowhere else. Which scope an RPC requires is stated in
its contract (podium_kit.rpc.access); the scopes of a role are in ROLE_SCOPES below.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum

from podium_kit.rpc.errors import PermissionDenied, Unauthenticated


class Scope(StrEnum):
    PLATFORM_ADMIN = "platform:admin"
    TENANT_ADMIN = "tenant:admin"
    TOOLS_WRITE = "tools:write"
    EPISODES_RUN = "episodes:run"
    CALLS_APPROVE = "calls:approve"
    TRAJECTORIES_READ = "trajectories:read"
    SPEND_READ = "spend:read"
    AUDIT_READ = "audit:read"
    TRAINING_READ = "training:read"
    LEDGER_WRITE = "ledger:write"
    FACTS_WRITE = "facts:write"
    TOOLS_FOLLOW = "tools:follow"
    EMBEDDINGS_RECORD = "embeddings:record"


# Services sign these for work of their own; no key of a person carries one.
SERVICE_SCOPES = frozenset(
    {Scope.LEDGER_WRITE, Scope.FACTS_WRITE, Scope.TOOLS_FOLLOW, Scope.EMBEDDINGS_RECORD}
)


class Role(StrEnum):
    """A set of scopes with a name, which keys and identity providers use."""

    PLATFORM_ADMIN = "platform-admin"
    TENANT_ADMIN = "tenant-admin"
    TOOL_OWNER = "tool-owner"
    DEVELOPER = "developer"
    APPROVER = "approver"
    AUDITOR = "auditor"
    ML_ENGINEER = "ml-engineer"


ROLE_SCOPES = {
    # Every tenant's limits, shared tools, list prices: for those who run the platform.
    Role.PLATFORM_ADMIN: frozenset({Scope.PLATFORM_ADMIN}),
    # Everything of one tenant: keys, policies, budgets, the tenant's own prices.
    Role.TENANT_ADMIN: frozenset({Scope.TENANT_ADMIN}),
    # Registers tools and corpora, and tries them.
    Role.TOOL_OWNER: frozenset({Scope.TOOLS_WRITE, Scope.EPISODES_RUN}),
    # Runs episodes, sees what they did and what they cost.
    Role.DEVELOPER: frozenset({Scope.EPISODES_RUN, Scope.TRAJECTORIES_READ, Scope.SPEND_READ}),
    # Decides on calls that wait for a person.
    Role.APPROVER: frozenset({Scope.CALLS_APPROVE}),
    # Sees spending and administrative changes; changes nothing.
    Role.AUDITOR: frozenset({Scope.SPEND_READ, Scope.AUDIT_READ}),
    # Plays evaluations, and sees how versions were trained. They serve every tenant, so an admin of
    # the platform grants it.
    Role.ML_ENGINEER: frozenset(
        {Scope.EPISODES_RUN, Scope.TRAJECTORIES_READ, Scope.SPEND_READ, Scope.TRAINING_READ}
    ),
}
# What a tenant admin's scope implies. Shared tools, list prices and posting costs are not in it.
TENANT_SCOPES = frozenset(
    {
        Scope.TENANT_ADMIN,
        Scope.TOOLS_WRITE,
        Scope.EPISODES_RUN,
        Scope.CALLS_APPROVE,
        Scope.TRAJECTORIES_READ,
        Scope.SPEND_READ,
        Scope.AUDIT_READ,
    }
)


class ScopeMissing(PermissionDenied):
    def __init__(self, identity: "Identity", scopes: Iterable[Scope]) -> None:
        wanted = frozenset(scopes)
        names = sorted(scope.value for scope in wanted)
        super().__init__(
            f"{identity.subject} of tenant {identity.tenant} lacks the scope {' or '.join(names)}; "
            f"{_remedy(wanted)}",
            scope=",".join(names),
        )


def _remedy(scopes: frozenset[Scope]) -> str:
    if scopes & TENANT_SCOPES:
        return "an admin of the tenant can create a key with it"
    if scopes & {Scope.PLATFORM_ADMIN, Scope.TRAINING_READ}:
        return "an admin of the platform can create a key with it"
    return "no key has it: services sign it for work of their own"


def scopes_of(roles: Iterable[Role]) -> frozenset[str]:
    return frozenset(scope for role in roles for scope in ROLE_SCOPES[role])


def groups_of(
    roles: Iterable[Role],
    teams: Iterable[str],
    agents: Iterable[str] = (),
    creators: Iterable[str] = (),
) -> frozenset[str]:
    """The names by which policies bind callers, their spending is charged, and people are
    distinguished. `creators` are those who had the key's text besides its subject."""
    named = {"role": roles, "team": teams, "agent": agents, "creator": creators}
    return frozenset(f"{kind}:{name}" for kind, names in named.items() for name in names)


@dataclass(frozen=True)
class Identity:
    tenant: str
    subject: str
    scopes: frozenset[str]
    # What besides the subject is known of it: "role:developer", "team:search", "agent:bot",
    # "key:ID", "creator:ada". Policies can bind all but the last.
    groups: frozenset[str] = frozenset()

    @property
    def principals(self) -> frozenset[str]:
        return self.groups | {f"user:{self.subject}"}

    @property
    def people(self) -> frozenset[str]:
        """Everyone who may be calling: the subject, and who created or rotated its key."""
        return self.named("creator") | {self.subject}

    def named(self, kind: str) -> frozenset[str]:
        prefix = f"{kind}:"
        return frozenset(
            group.removeprefix(prefix) for group in self.groups if group.startswith(prefix)
        )

    def may(self, scope: Scope) -> bool:
        """Returns whether the scopes allow it, directly or through an admin scope."""
        if Scope.PLATFORM_ADMIN in self.scopes or scope in self.scopes:
            return True
        return Scope.TENANT_ADMIN in self.scopes and scope in TENANT_SCOPES


_identity: ContextVar[Identity | None] = ContextVar("identity", default=None)
_token: ContextVar[str | None] = ContextVar("token", default=None)


def current_identity() -> Identity:
    """The caller of the request being served. Raises Unauthenticated outside of one."""
    identity = _identity.get()
    if identity is None:
        raise Unauthenticated("this call carries no identity")
    return identity


def require_scope(*scopes: Scope) -> Identity:
    """The caller, when it has one of the scopes. Raises ScopeMissing."""
    identity = current_identity()
    if not any(identity.may(scope) for scope in scopes):
        raise ScopeMissing(identity, scopes)
    return identity


def current_token() -> str | None:
    """The token the request being served came with, to be forwarded."""
    return _token.get()


@contextmanager
def acting_as(identity: Identity, token: str | None = None) -> Iterator[None]:
    resets = _identity.set(identity), _token.set(token)
    try:
        yield
    finally:
        _identity.reset(resets[0])
        _token.reset(resets[1])
