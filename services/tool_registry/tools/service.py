import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from podium_kit.rpc.identity import Scope, current_identity, require_scope
from tool_registry.errors import (
    InvalidActivation,
    PolicyNotFound,
    PolicyUsed,
    PresetName,
    PresetStays,
    SharedToolStays,
    ToolNotFound,
)
from tool_registry.facts.measurements import Clock
from tool_registry.models import PLATFORM, PolicySpec, PolicyVersion, ToolSpec, ToolVersion
from tool_registry.policies.bindings import require_unused
from tool_registry.policies.floors import owner_of
from tool_registry.policies.presets import PRESETS
from tool_registry.policies.store import PolicyStore
from tool_registry.tools.catalogue import Catalogue, Catalogues
from tool_registry.tools.checks import check_executor, check_fairly
from tool_registry.tools.store import ToolStore

# What a request may take from a caller's clock to ours.
PUNCTUALITY = timedelta(minutes=1)


@dataclass(frozen=True)
class Registry:
    tools: ToolStore
    policies: PolicyStore
    catalogues: Catalogues
    clock: Clock
    retention: timedelta

    async def register(
        self, spec: ToolSpec, shared: bool, validate_only: bool
    ) -> tuple[ToolVersion, bool]:
        """The version of the spec, and whether it is new. Raises InvalidTool, InvalidSchema,
        NameTaken, PermissionDenied.
        """
        identity = current_identity()
        if shared:
            require_scope(Scope.PLATFORM_ADMIN)
        owner = PLATFORM if shared else identity.tenant
        await check_fairly(spec, shared)
        tools = (await self.catalogue()).tools
        resources = tools.resources
        if not shared:
            resources.check(spec)
        check_executor(spec, tools.executor_of(spec, shared=shared), shared=shared)
        tool, created = await self.tools.register(
            owner, spec, digest_of(spec.wire), identity.subject, validate_only
        )
        return (tool if shared else resources.bound((tool,))[0]), created

    async def catalogue(self) -> Catalogue:
        versions = await self.tools.versions()
        return await self.catalogues.of(current_identity().tenant, versions.catalogue)

    async def policy(self, name: str, version: int) -> PolicyVersion:
        return (await self.catalogue()).policy(name, version, self.clock())

    async def newest_policies(self) -> list[PolicyVersion]:
        return (await self.catalogue()).newest_policies(self.clock())

    async def deprecate(self, name: str, version: int) -> list[ToolVersion]:
        deprecated = await self.tools.deprecate(await self._writable(name), name, version)
        if not deprecated:
            raise ToolNotFound(name, version)
        return _newest_first(deprecated)

    async def delete(self, name: str, version: int) -> list[ToolVersion]:
        """Takes versions out of sight; they stay readable by number. Raises ToolNotFound."""
        deleted = await self.tools.delete(await self._writable(name), name, version)
        if not deleted:
            raise ToolNotFound(name, version)
        return _newest_first(deleted)

    async def purge(self) -> None:
        """Forgets versions whose retention has passed.

        An episode can only have begun with a version before it was deleted, so every
        episode of the retention's length still finds what it used.
        """
        await self.tools.purge(self.clock() - self.retention)

    async def create_policy(
        self, spec: PolicySpec, validate_only: bool
    ) -> tuple[PolicyVersion, bool]:
        identity = current_identity()
        if spec.name in PRESETS:
            raise PresetName(spec.name)
        owner = _writable_owner(spec.name)
        return await self.policies.create(
            owner, spec, digest_of(spec.wire), identity.subject, validate_only
        )

    async def delete_policy(self, name: str, version: int) -> list[PolicyVersion]:
        """Deletes versions that nothing used, all or none; 0 deletes all. Oldest first.

        Raises PolicyNotFound, PolicyUsed, PresetStays, PermissionDenied.
        """
        if name in PRESETS:
            raise PresetStays(name)
        for tool in (await self.catalogue()).tools.current:
            if tool.spec.runs_policy == name:
                raise PolicyUsed(name, version or 1, f"is named by the tool {tool.spec.name}")
        deleted = await self.policies.delete(_writable_owner(name), name, version, require_unused)
        if not deleted:
            raise PolicyNotFound(name, version)
        return deleted

    async def activate(self, name: str, version: int, since: datetime | None) -> PolicyVersion:
        """Makes a version the tenant's default, now or from a time on. Raises PolicyNotFound,
        InvalidActivation.
        """
        identity = current_identity()
        now = self.clock()
        if since is not None and since < now - PUNCTUALITY:
            raise InvalidActivation(
                f"effective_time {since.isoformat()} has passed; leave it out to start now"
            )
        policy = (await self.catalogue()).policy(name, version, now)
        since = max(since or now, now)
        await self.policies.activate(identity.tenant, policy, since, identity.subject)
        return replace(policy, active=since <= now)

    async def _writable(self, name: str) -> str:
        owner = (await self.catalogue()).tools.owner(name)
        if owner == PLATFORM and Scope.PLATFORM_ADMIN not in current_identity().scopes:
            raise SharedToolStays(name)
        return owner


def _writable_owner(policy: str) -> str:
    owner = owner_of(policy, current_identity().tenant)
    if owner == PLATFORM:
        require_scope(Scope.PLATFORM_ADMIN)
    return owner


def _newest_first(versions: list[ToolVersion]) -> list[ToolVersion]:
    return sorted(versions, key=lambda tool: -tool.version)


def digest_of(wire: bytes) -> str:
    return hashlib.sha256(wire).hexdigest()
