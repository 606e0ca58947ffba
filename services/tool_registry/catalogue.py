"""Tools and policies of a tenant, kept in memory until somebody changes one."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tool_registry.errors import PolicyNotFound, ToolNotFound
from tool_registry.models import PolicySpec, PolicyVersion, ToolVersion
from tool_registry.presets import DEFAULT_POLICY
from tool_registry.store_policies import PolicyStore
from tool_registry.store_tools import PLATFORM, ToolStore

PRESET_TIME = datetime(2025, 11, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Catalogue:
    """A snapshot of what one tenant can see."""

    version: int
    tools: tuple[ToolVersion, ...]
    policies: tuple[PolicyVersion, ...]

    def newest_tools(self, include_deprecated: bool = False) -> list[ToolVersion]:
        """The newest usable version of each tool, in name order."""
        newest: dict[str, ToolVersion] = {}
        for tool in self.tools:
            if include_deprecated or tool.deprecate_time is None:
                newest[tool.spec.name] = tool
        return sorted(newest.values(), key=lambda tool: tool.spec.name)

    def tool(self, name: str, version: int) -> ToolVersion:
        """One version; 0 is the newest that is not deprecated. Raises ToolNotFound."""
        for tool in reversed(self.tools):
            current = tool.version == version if version else tool.deprecate_time is None
            if tool.spec.name == name and current:
                return tool
        raise ToolNotFound(name, version)

    def policy(self, name: str, version: int = 0) -> PolicyVersion:
        """One version; 0 is the newest, the empty name the default. Raises PolicyNotFound."""
        if not name:
            return self._default_policy()
        for policy in reversed(self.policies):
            if policy.spec.name == name and version in (0, policy.version):
                return policy
        raise PolicyNotFound(name, version)

    def newest_policies(self) -> list[PolicyVersion]:
        """The newest version of each policy, presets first."""
        return list({policy.spec.name: policy for policy in self.policies}.values())

    def _default_policy(self) -> PolicyVersion:
        chosen = [policy for policy in self.policies if policy.active]
        return chosen[0] if chosen else self.policy(DEFAULT_POLICY)


class Catalogues:
    """One snapshot per tenant, read again when the catalogue's version has moved."""

    def __init__(self, tools: ToolStore, policies: PolicyStore, presets: list[PolicySpec]) -> None:
        self._tools = tools
        self._policies = policies
        self._presets = [
            PolicyVersion(1, spec, "preset", PRESET_TIME, "podium") for spec in presets
        ]
        self._snapshots: dict[str, Catalogue] = {}

    async def of(self, tenant: str) -> Catalogue:
        """The tenant's snapshot as of now."""
        version = await self._tools.catalogue_version()
        known = self._snapshots.get(tenant)
        if known is None or known.version != version:
            known = await self._read(tenant, version)
            self._snapshots[tenant] = known
        return known

    async def _read(self, tenant: str, version: int) -> Catalogue:
        tools = await self._tools.visible(tenant)
        # A tenant's tools come last, but it cannot take a name of the platform's.
        tools.sort(key=lambda tool: (tool.owner != PLATFORM, tool.spec.name, tool.version))
        own = await self._policies.of_tenant(tenant)
        active = await self._policies.active(tenant)
        policies = [
            replace(policy, active=(policy.spec.name, policy.version) == active)
            for policy in [*self._presets, *own]
        ]
        return Catalogue(version, tuple(tools), tuple(policies))
