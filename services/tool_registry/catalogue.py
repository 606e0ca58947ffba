"""Tools and policies of a tenant, kept in memory and read on from the last change."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from cachetools import LRUCache

from tool_registry.errors import PolicyNotFound, ToolDeprecated, ToolNotFound
from tool_registry.models import PLATFORM, PolicySpec, PolicyVersion, ToolVersion
from tool_registry.presets import DEFAULT_POLICY
from tool_registry.store_policies import PolicyStore
from tool_registry.store_tools import ToolStore

PRESET_TIME = datetime(2025, 11, 1, tzinfo=UTC)
OWNERS_KEPT = 1_000
Versions = Mapping[str, tuple[ToolVersion, ...]]


@dataclass(frozen=True, eq=False)
class Tools:
    """Versions by name, oldest first, names in order. Compared by identity: it never changes."""

    by_name: Versions

    @cached_property
    def current(self) -> tuple[ToolVersion, ...]:
        """The newest version of each tool that is not deprecated."""
        newest = (_newest(versions) for versions in self.by_name.values())
        return tuple(tool for tool in newest if tool is not None)

    @cached_property
    def skus(self) -> frozenset[str]:
        """Every SKU a call of a current tool may be priced by."""
        return frozenset(sku for tool in self.current for sku in tool.spec.skus)

    def newest(self) -> list[ToolVersion]:
        """The newest version of each tool, also of those that have only deprecated ones."""
        return [_newest(versions) or versions[-1] for versions in self.by_name.values()]

    def versions(self, name: str) -> tuple[ToolVersion, ...]:
        """All of one tool, oldest first. Raises ToolNotFound."""
        if name not in self.by_name:
            raise ToolNotFound(name)
        return self.by_name[name]

    def get(self, name: str, version: int) -> ToolVersion:
        """One version; 0 is the newest that is not deprecated."""
        versions = self.versions(name)
        if version == 0:
            if (newest := _newest(versions)) is None:
                raise ToolDeprecated(name)
            return newest
        # Versions count from 1 without gaps.
        if not 0 < version <= len(versions):
            raise ToolNotFound(name, version)
        return versions[version - 1]


@dataclass(frozen=True)
class Catalogue:
    """A snapshot of what one tenant can see."""

    version: int
    tools: Tools
    policies: tuple[PolicyVersion, ...]

    def policy(self, name: str, version: int = 0) -> PolicyVersion:
        """One version; 0 is the newest, the empty name the default. Raises PolicyNotFound."""
        if not name:
            return next(policy for policy in self.policies if policy.active)
        for policy in reversed(self.policies):
            if policy.spec.name == name and version in (0, policy.version):
                return policy
        raise PolicyNotFound(name, version)

    def newest_policies(self) -> list[PolicyVersion]:
        """The newest version of each policy, presets first."""
        return list({policy.spec.name: policy for policy in self.policies}.values())


@dataclass(frozen=True)
class _OwnedTools:
    version: int
    by_name: Versions


class Catalogues:
    """One snapshot per tenant; the shared tools are kept once for all of them."""

    def __init__(self, tools: ToolStore, policies: PolicyStore, presets: list[PolicySpec]) -> None:
        self._tools = tools
        self._policies = policies
        self._presets = [
            PolicyVersion(1, spec, "preset", PRESET_TIME, "podium") for spec in presets
        ]
        self._owners: LRUCache[str, _OwnedTools] = LRUCache(OWNERS_KEPT)
        self._merged: LRUCache[str, tuple[Versions, Versions, Tools]] = LRUCache(OWNERS_KEPT)
        self._catalogues: LRUCache[str, Catalogue] = LRUCache(OWNERS_KEPT)
        self._reading = asyncio.Lock()

    async def of(self, tenant: str, version: int) -> Catalogue:
        """The tenant's snapshot, not older than a catalogue version."""
        known = self._catalogues.get(tenant)
        if known is not None and known.version >= version:
            return known
        async with self._reading:
            tools = await self._visible(tenant, version)
            catalogue = Catalogue(version, tools, await self._policies_of(tenant))
        self._catalogues[tenant] = catalogue
        return catalogue

    async def _visible(self, tenant: str, version: int) -> Tools:
        shared = await self._owned(PLATFORM, version)
        own = await self._owned(tenant, version)
        merged = self._merged.get(tenant)
        if merged is None or merged[0] is not shared or merged[1] is not own:
            # The names of the two never meet: see store_tools.
            tools = Tools(dict(sorted({**shared, **own}.items())))
            merged = self._merged[tenant] = (shared, own, tools)
        return merged[2]

    async def _owned(self, owner: str, version: int) -> Versions:
        known = self._owners.get(owner) or _OwnedTools(0, {})
        if known.version < version:
            changed = await self._tools.changed(owner, known.version)
            by_name = _with_changes(known.by_name, changed) if changed else known.by_name
            known = self._owners[owner] = _OwnedTools(version, by_name)
        return known.by_name

    async def _policies_of(self, tenant: str) -> tuple[PolicyVersion, ...]:
        own = await self._policies.of_tenant(tenant)
        active = await self._policies.active(tenant) or (DEFAULT_POLICY, 1)
        return tuple(
            replace(policy, active=(policy.spec.name, policy.version) == active)
            for policy in [*self._presets, *own]
        )


def _newest(versions: Iterable[ToolVersion]) -> ToolVersion | None:
    current = [tool for tool in versions if tool.deprecate_time is None]
    return current[-1] if current else None


def _with_changes(known: Versions, changed: Iterable[ToolVersion]) -> Versions:
    versions: dict[str, dict[int, ToolVersion]] = {}
    for tool in changed:
        name = tool.spec.name
        before = versions.setdefault(name, {old.version: old for old in known.get(name, ())})
        before[tool.version] = tool
    updates = {
        name: tuple(tool for _, tool in sorted(numbered.items()))
        for name, numbered in versions.items()
    }
    return {**known, **updates}
