"""Registering tools and taking them out of use, keeping policies."""

import hashlib
from dataclasses import dataclass, replace

from rpckit.identity import Scope, current_identity, require_scope
from tool_registry.catalogue import Catalogue, Catalogues
from tool_registry.errors import PresetName, ToolNotFound
from tool_registry.models import PLATFORM, PolicySpec, PolicyVersion, ToolSpec, ToolVersion
from tool_registry.presets import PRESETS
from tool_registry.store_policies import PolicyStore
from tool_registry.store_tools import ToolStore
from tool_registry.tool_checks import check_tool


@dataclass(frozen=True)
class Registry:
    """What is kept: tools and policies."""

    tools: ToolStore
    policies: PolicyStore
    catalogues: Catalogues

    async def register(
        self, spec: ToolSpec, shared: bool, validate_only: bool
    ) -> tuple[ToolVersion, bool]:
        """The version the spec has, and whether it is new.

        Raises InvalidTool, InvalidSchema, NameTaken, PermissionDenied.
        """
        identity = require_scope(Scope.PLATFORM_ADMIN if shared else Scope.TOOLS_WRITE)
        owner = PLATFORM if shared else identity.tenant
        check_tool(spec)
        return await self.tools.register(
            owner, spec, _digest(spec.wire), identity.subject, validate_only
        )

    async def catalogue(self) -> Catalogue:
        """What the caller's tenant can see now."""
        versions = await self.tools.versions()
        return await self.catalogues.of(current_identity().tenant, versions.catalogue)

    async def deprecate(self, name: str, version: int) -> list[ToolVersion]:
        """Takes versions out of new toolsets. Raises ToolNotFound."""
        owner = (await self.catalogue()).tools.versions(name)[0].owner
        require_scope(Scope.PLATFORM_ADMIN if owner == PLATFORM else Scope.TOOLS_WRITE)
        deprecated = await self.tools.deprecate(owner, name, version)
        if not deprecated:
            raise ToolNotFound(name, version)
        return sorted(deprecated, key=lambda tool: -tool.version)

    async def create_policy(
        self, spec: PolicySpec, validate_only: bool
    ) -> tuple[PolicyVersion, bool]:
        """The version the spec has, and whether it is new. Raises InvalidPolicy, PresetName."""
        identity = require_scope(Scope.TENANT_ADMIN)
        if spec.name in PRESETS:
            raise PresetName(spec.name)
        return await self.policies.create(
            identity.tenant, spec, _digest(spec.wire), identity.subject, validate_only
        )

    async def activate(self, name: str, version: int) -> PolicyVersion:
        """Makes a version the tenant's default. Raises PolicyNotFound."""
        identity = require_scope(Scope.TENANT_ADMIN)
        policy = (await self.catalogue()).policy(name, version)
        await self.policies.activate(identity.tenant, policy.spec.name, policy.version)
        return replace(policy, active=True)


def _digest(wire: bytes) -> str:
    return hashlib.sha256(wire).hexdigest()
