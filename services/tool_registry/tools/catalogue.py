import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from cachetools import LRUCache

from tool_registry.errors import PolicyNotFound, ToolDeprecated, ToolNotFound
from tool_registry.models import (
    PLATFORM,
    Activation,
    Binding,
    Floor,
    PolicySpec,
    PolicyVersion,
    ToolSpec,
    ToolVersion,
)
from tool_registry.policies.floors import FLOOR, PLATFORM_FLOOR
from tool_registry.policies.presets import DEFAULT_POLICY
from tool_registry.policies.store import PolicyStore
from tool_registry.policies.store_bindings import BindingStore
from tool_registry.policies.store_learning import LearningStore
from tool_registry.tools.operator_resources import NO_RESOURCES, OperatorResources, WithTerms
from tool_registry.tools.store import ChangedVersion, ToolStore

PRESET_TIME = datetime(2025, 11, 1, tzinfo=UTC)
OWNERS_KEPT = 1_000
Versions = Mapping[str, tuple[ToolVersion, ...]]


@dataclass(frozen=True, eq=False)
class Tools:
    """Versions by name, oldest first, names in order. Compared by identity: it never changes.

    Deleted versions are found by their number only.
    """

    by_name: Versions
    resources: OperatorResources = NO_RESOURCES

    @cached_property
    def current(self) -> tuple[ToolVersion, ...]:
        newest = (_newest(versions) for versions in self.by_name.values())
        return tuple(tool for tool in newest if tool is not None)

    @cached_property
    def skus(self) -> frozenset[str]:
        return frozenset(sku for tool in self.current for sku in tool.spec.skus)

    def newest(self) -> list[ToolVersion]:
        kept = (_kept(versions) for versions in self.by_name.values())
        return [_newest(versions) or versions[-1] for versions in kept if versions]

    def newest_of(self, name: str) -> ToolVersion | None:
        """The newest version that is current; None for a name that no current tool has."""
        return _newest(self.by_name.get(name, ()))

    def executor_of(self, spec: ToolSpec, *, shared: bool) -> ToolSpec | None:
        """The tool that runs what a composite tool's models write; a shared one needs a shared
        one."""
        found = self.newest_of(spec.executor)
        usable = found is not None and (found.owner == PLATFORM or not shared)
        return found.spec if found is not None and usable else None

    def versions(self, name: str) -> tuple[ToolVersion, ...]:
        """Versions that are not deleted, oldest first. Raises ToolNotFound."""
        if not (versions := _kept(self.by_name.get(name, ()))):
            raise ToolNotFound(name)
        return versions

    def owner(self, name: str) -> str:
        """Returns the owner of a tool, also of a deleted one. Raises ToolNotFound."""
        if not (versions := self.by_name.get(name)):
            raise ToolNotFound(name)
        return versions[0].owner

    def find(self, name: str, version: int) -> ToolVersion | None:
        """Finds a deleted version, too."""
        return next((each for each in self.by_name.get(name, ()) if each.version == version), None)

    def sku(self, name: str, model_alias: str) -> str:
        newest = self.newest_of(name)
        choices = newest.spec.choices if newest else ()
        single = len(choices) == 1
        return next((one.sku for one in choices if single or one.alias == model_alias), "")

    def get(self, name: str, version: int) -> ToolVersion:
        """One version; 0 is the newest that is not deprecated."""
        if version == 0:
            if (newest := _newest(self.versions(name))) is None:
                raise ToolDeprecated(name)
            return newest
        if (found := self.find(name, version)) is None:
            raise ToolNotFound(name, version if name in self.by_name else 0)
        return found


@dataclass(frozen=True)
class Catalogue:
    version: int
    tools: Tools
    policies: tuple[PolicyVersion, ...]
    # By effective time.
    activations: tuple[Activation, ...]
    bindings: tuple[Binding, ...]
    served: Mapping[str, str]
    """Promoted models by policy."""

    def policy(self, name: str, version: int, now: datetime) -> PolicyVersion:
        """One version; 0 is the newest, the empty name the default. Raises PolicyNotFound."""
        active = self.active(now)
        name, version = (name, version) if name else active
        for policy in reversed(self.policies):
            if policy.spec.name == name and version in (0, policy.version):
                is_active = (name, policy.version) == active
                return replace(policy, active=is_active, model=self.served.get(name, ""))
        raise PolicyNotFound(name, version)

    def floors(self, principals: Set[str]) -> tuple[Floor, ...]:
        """Returns the floors of a caller with the principals, outermost first."""
        names = {name for each in principals for name in self._bound.get(each, ())}
        origins = {PLATFORM_FLOOR: "the platform's floor", FLOOR: "the tenant's floor"}
        for name in sorted(names - origins.keys()):
            origins[name] = f"policy {name}, which binds the caller"
        found = self._newest_by_name
        return tuple(Floor(found[name], origins[name]) for name in origins if name in found)

    @cached_property
    def _bound(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for one in self.bindings:
            names.setdefault(one.principal, []).append(one.policy)
        return names

    @cached_property
    def _newest_by_name(self) -> dict[str, PolicyVersion]:
        return {policy.spec.name: policy for policy in self.policies}

    def newest_policies(self, now: datetime) -> list[PolicyVersion]:
        """The newest version of each policy, presets first."""
        return [self.policy(name, 0, now) for name in self._newest_by_name]

    def active(self, now: datetime) -> tuple[str, int]:
        begun = bisect_right(self.activations, now, key=_effective)
        if not begun:
            return DEFAULT_POLICY, 1
        latest = self.activations[begun - 1]
        return latest.name, latest.version


@dataclass(frozen=True)
class _OwnedTools:
    version: int
    by_name: Versions


class Catalogues:
    """One snapshot per tenant; the shared tools are stored once for all of them."""

    def __init__(
        self,
        tools: ToolStore,
        policies: PolicyStore,
        bindings: BindingStore,
        learning: LearningStore,
        *,
        presets: list[PolicySpec],
        with_terms: WithTerms,
    ) -> None:
        self._with_terms = with_terms
        self._tools = tools
        self._policies = policies
        self._bindings = bindings
        self._learning = learning
        self._presets = [
            PolicyVersion(1, spec, "preset", PRESET_TIME, "podium") for spec in presets
        ]
        self._owners: LRUCache[str, _OwnedTools] = LRUCache(OWNERS_KEPT)
        self._merged: LRUCache[str, tuple[Versions, Versions, Tools]] = LRUCache(OWNERS_KEPT)
        self._catalogues: LRUCache[str, Catalogue] = LRUCache(OWNERS_KEPT)
        self._resources: tuple[Versions, OperatorResources] | None = None
        self._reading = asyncio.Lock()

    async def of(self, tenant: str, version: int) -> Catalogue:
        """The tenant's snapshot, not older than a catalogue version."""
        known = self._catalogues.get(tenant)
        if known is not None and known.version >= version:
            return known
        async with self._reading:
            tools = await self._visible(tenant, version)
            policies = (*self._presets, *await self._policies.of_tenant(tenant))
            activations = tuple(await self._policies.activations(tenant))
            bindings = tuple(await self._bindings.of_tenant(tenant))
            served = await self._learning.served(tenant)
            catalogue = Catalogue(version, tools, policies, activations, bindings, served)
        self._catalogues[tenant] = catalogue
        return catalogue

    async def _visible(self, tenant: str, version: int) -> Tools:
        shared = await self._owned(PLATFORM, version)
        own = await self._owned(tenant, version)
        resources = self._resources_of(shared)
        merged = self._merged.get(tenant)
        if merged is None or merged[0] is not shared or merged[1] is not own:
            bound = {name: resources.bound(versions) for name, versions in own.items()}
            # The names of the two never meet: see store_tools.
            tools = Tools(dict(sorted({**shared, **bound}.items())), resources)
            merged = self._merged[tenant] = (shared, own, tools)
        return merged[2]

    def _resources_of(self, shared: Versions) -> OperatorResources:
        if self._resources is None or self._resources[0] is not shared:
            self._resources = (shared, OperatorResources.of(shared, self._with_terms))
        return self._resources[1]

    async def _owned(self, owner: str, version: int) -> Versions:
        known = self._owners.get(owner) or _OwnedTools(0, {})
        if known.version < version:
            changed = await self._tools.changed(owner, known.version)
            by_name = _with_changes(known.by_name, changed) if changed else known.by_name
            known = self._owners[owner] = _OwnedTools(version, by_name)
        return known.by_name


def _newest(versions: Iterable[ToolVersion]) -> ToolVersion | None:
    current = [tool for tool in versions if tool.current]
    return current[-1] if current else None


def _kept(versions: Sequence[ToolVersion]) -> tuple[ToolVersion, ...]:
    return tuple(tool for tool in versions if tool.delete_time is None)


def _effective(activation: Activation) -> datetime:
    return activation.effective_time


def _with_changes(known: Versions, changed: Iterable[ChangedVersion]) -> Versions:
    versions: dict[str, dict[int, ToolVersion]] = {}
    for change in changed:
        name = change.name
        before = versions.setdefault(name, {old.version: old for old in known.get(name, ())})
        if change.tool is None:
            before.pop(change.version, None)
        else:
            before[change.version] = change.tool
    updates = {
        name: tuple(tool for _, tool in sorted(numbered.items()))
        for name, numbered in versions.items()
    }
    return {**known, **updates}
