from cachetools import LRUCache

from tool_registry.errors import PolicyNotFound, PolicyUsed
from tool_registry.models import PolicyVersion
from tool_registry.policies.floors import owner_of
from tool_registry.policies.presets import PRESETS
from tool_registry.policies.store import PolicyStore, PolicyUse

KNOWN_MAX = 100_000


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
