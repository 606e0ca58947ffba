"""Registering tools, keeping policies, resolving toolsets."""

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rpckit.identity import Scope, current_identity, require_scope
from tool_registry.catalogue import Catalogue, Catalogues
from tool_registry.clients import PriceBook
from tool_registry.errors import NameTaken, ToolNotFound
from tool_registry.models import (
    Decision,
    Facts,
    PolicySpec,
    PolicyVersion,
    Price,
    Toolset,
    ToolSpec,
    ToolVersion,
)
from tool_registry.resolver import resolve
from tool_registry.store_facts import FactsStore
from tool_registry.store_policies import PolicyStore
from tool_registry.store_tools import PLATFORM, ToolStore
from tool_registry.tool_checks import check_tool

PLATFORM_TENANT = "platform"


@dataclass(frozen=True)
class Registry:
    """What the registry can do."""

    tools: ToolStore
    policies: PolicyStore
    facts: FactsStore
    catalogues: Catalogues
    price_book: PriceBook

    async def register(
        self, spec: ToolSpec, shared: bool, validate_only: bool
    ) -> tuple[ToolVersion, bool]:
        """The version the spec has, and whether it is new.

        Raises InvalidTool, InvalidSchema, NameTaken, PermissionDenied.
        """
        identity = require_scope(Scope.PLATFORM_ADMIN if shared else Scope.TOOLS_WRITE)
        owner = PLATFORM if shared else identity.tenant
        check_tool(spec)
        await self._check_name(spec.name, owner)
        digest = _digest(spec.wire)
        if validate_only:
            return await self._as_if_registered(spec, owner, digest)
        return await self.tools.register(owner, spec, digest, identity.subject)

    async def catalogue(self) -> Catalogue:
        """What the caller's tenant can see now."""
        return await self.catalogues.of(current_identity().tenant)

    async def deprecate(self, name: str, version: int) -> list[ToolVersion]:
        """Takes versions out of new toolsets. Raises ToolNotFound."""
        catalogue = await self.catalogue()
        owners = {tool.owner for tool in catalogue.tools if tool.spec.name == name}
        if not owners:
            raise ToolNotFound(name, version)
        owner = owners.pop()
        require_scope(Scope.PLATFORM_ADMIN if owner == PLATFORM else Scope.TOOLS_WRITE)
        return await self.tools.deprecate(owner, name, version)

    async def create_policy(
        self, spec: PolicySpec, validate_only: bool
    ) -> tuple[PolicyVersion, bool]:
        """The version the spec has, and whether it is new. Raises InvalidPolicy."""
        identity = require_scope(Scope.TENANT_ADMIN)
        digest = _digest(spec.wire)
        if validate_only:
            now = datetime.now(UTC)
            return PolicyVersion(0, spec, digest, now, identity.subject), True
        return await self.policies.create(identity.tenant, spec, digest, identity.subject)

    async def activate(self, name: str, version: int) -> PolicyVersion:
        """Makes a version the tenant's default. Raises PolicyNotFound."""
        identity = require_scope(Scope.TENANT_ADMIN)
        policy = (await self.catalogue()).policy(name, version)
        await self.policies.activate(identity.tenant, policy.spec.name, policy.version)
        return replace(policy, active=True)

    async def resolve(self, policy: str, wanted: list[str]) -> Toolset:
        """What an episode may use. Raises PolicyNotFound, ToolNotFound, ToolRefused."""
        catalogue = await self.catalogue()
        return await self._resolve(catalogue, catalogue.policy(policy), wanted)

    async def explain(self, policy: str, spec: PolicySpec | None) -> tuple[Decision, ...]:
        """Why each tool is in or out, under a stored policy or one that is only tried."""
        catalogue = await self.catalogue()
        if spec is None:
            version = catalogue.policy(policy)
        else:
            version = PolicyVersion(0, spec, "", datetime.now(UTC), "")
        return (await self._resolve(catalogue, version, [])).decisions

    async def record_facts(self, reporter: str, facts: list[Facts]) -> None:
        """Takes what an adapters process measured."""
        tenant = require_scope(Scope.LEDGER_WRITE).tenant
        # What the platform measures of its shared tools is for every tenant.
        await self.facts.record(reporter, PLATFORM if tenant == PLATFORM_TENANT else tenant, facts)

    async def list_facts(self) -> list[Facts]:
        """Measured behaviour of the tools the caller can see."""
        return await self.facts.merged(current_identity().tenant)

    async def _resolve(
        self, catalogue: Catalogue, policy: PolicyVersion, wanted: list[str]
    ) -> Toolset:
        tools = catalogue.newest_tools()
        facts = {(entry.tool_name, entry.model_alias): entry for entry in await self.list_facts()}
        return resolve(tools, policy, await self._prices(tools), facts, wanted)

    async def _prices(self, tools: list[ToolVersion]) -> dict[str, Price]:
        skus = {sku for tool in tools for sku in tool.spec.skus}
        return await self.price_book.prices(current_identity().tenant, skus)

    async def _check_name(self, name: str, owner: str) -> None:
        owners = await self.tools.owners(name)
        if owner != PLATFORM and PLATFORM in owners:
            raise NameTaken(name)

    async def _as_if_registered(
        self, spec: ToolSpec, owner: str, digest: str
    ) -> tuple[ToolVersion, bool]:
        catalogue = await self.catalogue()
        versions = [t for t in catalogue.tools if t.owner == owner and t.spec.name == spec.name]
        for known in versions:
            if known.digest == digest:
                return known, False
        number = max((known.version for known in versions), default=0) + 1
        subject = current_identity().subject
        return ToolVersion(owner, number, spec, digest, datetime.now(UTC), subject), True


def _digest(wire: bytes) -> str:
    return hashlib.sha256(wire).hexdigest()
