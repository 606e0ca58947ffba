from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import partial

from podium_kit.attachments import MediaKind
from podium_kit.metering import PriceFactors
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.rpc.identity import Scope, current_identity, require_scope
from tool_registry.errors import PresetDisabled
from tool_registry.facts.measurements import Clock, MeasurementBook
from tool_registry.models import (
    ClientTool,
    Facts,
    FactsSource,
    MeasuredTool,
    PolicySpec,
    PolicyVersion,
    ToolAccess,
    Toolset,
)
from tool_registry.policies.bindings import PolicyUses
from tool_registry.policies.compiled import selects
from tool_registry.policies.floors import bound, disabling
from tool_registry.ranking.experience import Experience
from tool_registry.ranking.search import RankedTool, ToolSearch
from tool_registry.tools.catalogue import Catalogue, Catalogues
from tool_registry.tools.checks import SCHEMAS
from tool_registry.tools.store import ToolStore
from tool_registry.toolsets.best_tools import best_of, readers_first
from tool_registry.toolsets.estimates import requoted
from tool_registry.toolsets.price_cache import PriceCache
from tool_registry.toolsets.resolver import (
    CallDecision,
    PlannedCall,
    decide_call,
    without_unavailable,
)
from tool_registry.toolsets.service import Sources, Toolsets, narrowed, without_embedders
from tool_registry.toolsets.views import mean_cost, with_client_tools

CALLS_MAX = 100


@dataclass(frozen=True)
class Fitting:
    """Asks for no more tools than `tools_max`, those that fit a task best, without the known.

    Tools with a model that reads what is attached go before others.
    """

    task: str
    tools_max: int
    known: frozenset[str] = frozenset()
    attached: frozenset[MediaKind] = frozenset()


@dataclass(frozen=True)
class Resolution:
    tools: ToolStore
    catalogues: Catalogues
    measurements: MeasurementBook
    prices: PriceCache
    toolsets: Toolsets
    search: ToolSearch
    experience: Experience
    uses: PolicyUses
    clock: Clock

    async def resolve(
        self,
        policy: str,
        wanted: Sequence[str],
        fitting: Fitting | None,
        factors: PriceFactors,
        client_tools: Sequence[ClientTool] = (),
        *,
        for_direct_calls: bool = False,
    ) -> Toolset:
        """The frozen toolset; its descriptions quote prices times their factors. Raises
        PolicyNotFound, PresetDisabled, ToolNotFound, ToolRejected, PricesUnavailable, and
        InvalidTool and InvalidSchema for tools of the caller.
        """
        catalogue, sources = await self._sources()
        offered = await self._toolset(catalogue, sources, policy, None)
        if floor := disabling(offered.policy.spec):
            raise PresetDisabled(offered.policy.spec.name, floor)
        await self._note_use(offered.policy)
        toolset = narrowed(offered, wanted)
        if not (wanted or for_direct_calls):
            toolset = without_embedders(toolset)
        if not for_direct_calls:
            toolset = self._available(toolset, sources)
        if fitting is not None:
            past = self.experience.of(current_identity().tenant)
            ranked = await self.search.rank(catalogue.tools, fitting.task, past)
            readers = readers_first(toolset, ranked, fitting.attached)
            toolset = best_of(toolset, readers, fitting.tools_max, fitting.known)
        if factors:
            toolset = requoted(toolset, factors, sources.prices.by_sku, sources.measured.facts)
        if not client_tools:
            return toolset
        tenant = current_identity().tenant
        return await SCHEMAS.run(tenant, partial(with_client_tools, toolset, client_tools))

    async def found(self, query: str) -> tuple[list[RankedTool], bool]:
        """Tools that fit the words, best first, and whether embeddings counted. Those that no
        episode of the caller may use without naming another policy are left out."""
        versions = await self.tools.versions()
        catalogue = await self.catalogues.of(current_identity().tenant, versions.catalogue)
        found, embeddings_used = await self.search.search(catalogue.tools, query)
        policy = self._policy(catalogue, "", None).spec
        return [each for each in found if selects(policy, each.tool.spec)], embeddings_used

    async def explain(
        self, policy: str, spec: PolicySpec | None, principals: Set[str]
    ) -> tuple[ToolAccess, ...]:
        """Explains the decision on each tool, under a stored policy or one that is only tried, to
        the caller, or to one with the principals. Raises ScopeMissing."""
        if principals:
            require_scope(Scope.TENANT_ADMIN)
        catalogue, sources = await self._sources()
        toolset = await self._toolset(catalogue, sources, policy, spec, principals)
        return self._available(toolset, sources).decisions

    async def check(
        self, policy: str, calls: Sequence[PlannedCall]
    ) -> tuple[PolicyVersion, list[CallDecision]]:
        """Decides calls under the policy as it is now, whatever it was before."""
        if len(calls) > CALLS_MAX:
            raise InvalidArgument(f"{len(calls)} calls; at most {CALLS_MAX} are decided at once")
        decided = await self.decide(policy, None, calls)
        await self._note_use(decided[0])
        return decided

    async def decide(
        self, name: str, spec: PolicySpec | None, calls: Sequence[PlannedCall]
    ) -> tuple[PolicyVersion, list[CallDecision]]:
        catalogue, sources = await self._sources()
        policy = self._policy(catalogue, name, spec)
        tools = [catalogue.tools.find(call.tool_name, call.tool_version) for call in calls]
        # The catalogue's prices may lack those of an older version.
        skus = frozenset(sku for tool in tools if tool for sku in tool.spec.skus)
        if not skus <= catalogue.tools.skus:
            tenant = current_identity().tenant
            prices = await self.prices.effective(tenant, catalogue.tools.skus | skus)
            sources = Sources(sources.tools, prices, sources.measured)
        known = self.toolsets.known(sources)
        pairs = zip(tools, calls, strict=True)
        return policy, [decide_call(policy.spec, tool, call, known) for tool, call in pairs]

    async def record_facts(self, reporter: str, facts: Sequence[Facts]) -> None:
        identity = current_identity()
        if not reporter:
            raise InvalidArgument("reporter is unset; name the process that measured")
        versions = await self.tools.versions()
        tools = (await self.catalogues.of(identity.tenant, versions.catalogue)).tools
        reports = [(tools.owner(entry.tool_name), entry) for entry in facts]
        await self.measurements.record(FactsSource(reporter, identity.tenant), reports)

    async def facts(self) -> list[MeasuredTool]:
        catalogue, sources = await self._sources()
        return [
            MeasuredTool(facts, mean_cost(sources.prices.by_sku.get(sku), facts))
            for facts in sources.measured.facts.values()
            for sku in [catalogue.tools.sku(facts.tool_name, facts.model_alias)]
        ]

    async def _note_use(self, policy: PolicyVersion) -> None:
        tenant = current_identity().tenant
        for each in (policy, *(floor.policy for floor in policy.spec.floors)):
            await self.uses.note(tenant, each)

    def _available(self, toolset: Toolset, sources: Sources) -> Toolset:
        known = self.toolsets.known(sources)
        return without_unavailable(toolset, sources.measured.unavailable, known)

    async def _toolset(
        self,
        catalogue: Catalogue,
        sources: Sources,
        name: str,
        spec: PolicySpec | None,
        principals: Set[str] = frozenset(),
    ) -> Toolset:
        policy = self._policy(catalogue, name, spec, principals)
        return await self.toolsets.of(current_identity().tenant, policy, sources)

    def _policy(
        self,
        catalogue: Catalogue,
        name: str,
        spec: PolicySpec | None,
        principals: Set[str] = frozenset(),
    ) -> PolicyVersion:
        now = self.clock()
        floors = catalogue.floors(principals or current_identity().principals)
        if spec is None:
            return bound(catalogue.policy(name, 0, now), floors)
        if name:
            raise InvalidArgument("give policy or spec, not both")
        return bound(PolicyVersion(0, spec, "", now, ""), floors)

    async def _sources(self) -> tuple[Catalogue, Sources]:
        tenant = current_identity().tenant
        versions = await self.tools.versions()
        catalogue = await self.catalogues.of(tenant, versions.catalogue)
        measured = await self.measurements.of(tenant, versions.facts)
        prices = await self.prices.effective(tenant, catalogue.tools.skus)
        return catalogue, Sources(catalogue.tools, prices, measured)
