"""Toolsets for episodes, and what they are made of: tools, policy, prices, measurements."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rpckit.errors import InvalidArgument
from rpckit.identity import Scope, current_identity, require_scope
from tool_registry.catalogue import Catalogues
from tool_registry.measurements import MeasurementBook, Measurements
from tool_registry.models import Decision, Facts, PolicySpec, PolicyVersion, Source, Toolset
from tool_registry.price_cache import PriceCache
from tool_registry.resolver import narrowed
from tool_registry.store_tools import ToolStore
from tool_registry.toolsets import Toolsets


@dataclass(frozen=True)
class Resolution:
    """What an episode may use, and why."""

    tools: ToolStore
    catalogues: Catalogues
    measurements: MeasurementBook
    prices: PriceCache
    toolsets: Toolsets

    async def resolve(self, policy: str, wanted: Sequence[str]) -> Toolset:
        """The frozen toolset.

        Raises PolicyNotFound, ToolNotFound, ToolRefused, PricesUnavailable.
        """
        return narrowed(await self._toolset(policy, None), wanted)

    async def explain(self, policy: str, spec: PolicySpec | None) -> tuple[Decision, ...]:
        """Why each tool is in or out, under a stored policy or one that is only tried."""
        if policy and spec is not None:
            raise InvalidArgument("give policy or spec, not both")
        return (await self._toolset(policy, spec)).decisions

    async def record_facts(self, reporter: str, facts: Sequence[Facts]) -> None:
        """Takes what an adapters process measured. Raises ToolNotFound, InvalidFacts."""
        identity = require_scope(Scope.LEDGER_WRITE)
        if not reporter:
            raise InvalidArgument("reporter is unset; name the process that measured")
        versions = await self.tools.versions()
        tools = (await self.catalogues.of(identity.tenant, versions.catalogue)).tools
        reports = [(tools.versions(entry.tool_name)[0].owner, entry) for entry in facts]
        await self.measurements.record(Source(reporter, identity.tenant), reports)

    async def facts(self) -> Measurements:
        """Measured behaviour of the tools the caller can see."""
        versions = await self.tools.versions()
        return await self.measurements.of(current_identity().tenant, versions.facts)

    async def _toolset(self, name: str, spec: PolicySpec | None) -> Toolset:
        tenant = current_identity().tenant
        versions = await self.tools.versions()
        catalogue = await self.catalogues.of(tenant, versions.catalogue)
        policy = catalogue.policy(name) if spec is None else _tried(spec)
        measured = await self.measurements.of(tenant, versions.facts)
        prices = await self.prices.effective(tenant, catalogue.tools.skus)
        return self.toolsets.of(catalogue.tools, policy, prices, measured)


def _tried(spec: PolicySpec) -> PolicyVersion:
    return PolicyVersion(0, spec, "", datetime.now(UTC), "")
