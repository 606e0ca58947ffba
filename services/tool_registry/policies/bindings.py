from dataclasses import dataclass

from cachetools import LRUCache

from podium_kit.rpc.identity import Role, current_identity
from tool_registry.errors import InvalidBinding, PolicyNotFound, PolicyUsed
from tool_registry.models import Binding, PolicyVersion
from tool_registry.policies.floors import owner_of
from tool_registry.policies.presets import PRESETS
from tool_registry.policies.store import PolicyStore, PolicyUse
from tool_registry.policies.store_bindings import BindingStore

KINDS = ("role", "team", "user", "key")
KNOWN_MAX = 100_000


@dataclass(frozen=True)
class PolicyBindings:
    store: BindingStore

    async def bind(self, policy: str, principal: str) -> Binding:
        _check(principal)
        identity = current_identity()
        return await self.store.bind(identity.tenant, policy, principal, identity.subject)

    async def unbind(self, policy: str, principal: str) -> Binding:
        return await self.store.unbind(current_identity().tenant, policy, principal)


def _check(principal: str) -> None:
    kind, _, name = principal.partition(":")
    if kind not in KINDS:
        kinds = ", ".join(f"{one}:" for one in KINDS)
        raise InvalidBinding(f"principal {principal!r} must begin with one of {kinds}")
    if not name.isprintable():
        raise InvalidBinding(f"principal: after {kind}: follow printable characters")
    if kind == "role" and name not in list(Role):
        raise InvalidBinding(f"principal: there is no role {name}; there are {', '.join(Role)}")


class PolicyUses:
    """Notes the first use of each version in this process."""

    def __init__(self, store: PolicyStore) -> None:
        self._store = store
        self._known: LRUCache[tuple[str, str, int], None] = LRUCache(KNOWN_MAX)

    async def note(self, tenant: str, policy: PolicyVersion) -> None:
        """Raises PolicyNotFound for one that was deleted meanwhile."""
        name, version = policy.spec.name, policy.version
        key = (owner_of(name, tenant), name, version)
        if name in PRESETS or key in self._known:
            return
        if not await self._store.note_use(*key):
            raise PolicyNotFound(name, version)
        self._known[key] = None


def require_unused(found: PolicyUse) -> None:
    name, version = found.policy.spec.name, found.policy.version
    if found.effective_time is not None:
        why = f"is or was scheduled as the default from {found.effective_time:%Y-%m-%d %H:%M} UTC"
        raise PolicyUsed(name, version, why)
    if found.binds:
        why = "is bound to teams, roles, users or keys: `podium policies bindings` lists them"
        raise PolicyUsed(name, version, why)
    if found.use_time is not None:
        why = f"has decided about episodes or calls since {found.use_time:%Y-%m-%d %H:%M} UTC"
        raise PolicyUsed(name, version, why)
