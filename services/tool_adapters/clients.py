import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import grpc

from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1.cost_ledger_service_pb2_grpc import CostLedgerServiceStub
from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium.registry.v1.tool_registry_service_pb2_grpc import ToolRegistryServiceStub
from podium_kit.metering import Quantity
from podium_kit.rpc.errors import Unavailable
from podium_kit.rpc.identity import Identity, Scope, acting_as, current_identity
from podium_kit.rpc.status import answered
from podium_kit.tool_kinds import KINDS, kind_of
from podium_kit.wire import duration_to_proto, quantities_to_proto, usage_to_proto
from tool_adapters.calls.facts import Facts
from tool_adapters.convert_tools import tool_from_proto
from tool_adapters.costs.models import AdapterCost
from tool_adapters.errors import BudgetExhausted
from tool_adapters.models import ToolDefinition

TOOLS_KEPT = 10_000
TERMS_KEPT_S = 60.0
SUBJECT = "tool-adapters"
# The tenant of calls that are for the platform itself.
PLATFORM_TENANT = "platform"
SHARED_PAGE = 500
# Longer than it takes to find that the buyer has died.
HELD_S = 7_200.0


@dataclass(frozen=True)
class _Kept:
    tool: ToolDefinition
    message: tool_pb2.Tool
    until: float


class RegistryTools:
    """Versions of tools, fetched in the adapters' own name and kept: a version never changes.

    What a tenant's tool has of the operator's terms does, within a minute. Callers do not see the
    connections of tools that are not theirs.
    """

    def __init__(self, signed_channel: grpc.aio.Channel) -> None:
        self._stub = ToolRegistryServiceStub(signed_channel)
        self._known: OrderedDict[tuple[str, str, int], _Kept] = OrderedDict()
        # Limits are counted per definition, so all tenants have one of a tool that they share.
        self._shared: WeakValueDictionary[tuple[str, int], ToolDefinition] = WeakValueDictionary()

    async def tool(self, tenant: str, name: str, version: int) -> ToolDefinition:
        key = (tenant, name, version)
        known = self._known.get(key)
        if known and time.monotonic() < known.until:
            self._known.move_to_end(key)
            return known.tool
        try:
            message = await self._fetch(tenant, name, version)
        except Unavailable:
            if known is None:
                raise
            return known.tool
        # Of two fetches at once the first stands; what has not changed keeps its validators.
        known = self._known.get(key)
        tool = known.tool if known and known.message == message else tool_from_proto(message)
        if tool.shared:
            tool = self._shared.setdefault((name, version), tool)
        # The price and limits of an operator's resource are the operator's, and may change.
        changes = not tool.shared and bool(tool.kind.resource(message.spec.connection))
        until = time.monotonic() + TERMS_KEPT_S if changes else math.inf
        self._known[key] = _Kept(tool, message, until)
        if len(self._known) > TOOLS_KEPT:
            self._known.popitem(last=False)
        return tool

    async def _fetch(self, tenant: str, name: str, version: int) -> tool_pb2.Tool:
        request = pb.GetToolRequest(name=name, version=version)
        with acting_as(Identity(tenant, SUBJECT, frozenset({Scope.FACTS_WRITE}))):
            return (await answered(self._stub.GetTool(request))).tool


class RegistryServers:
    def __init__(self, signed_channel: grpc.aio.Channel) -> None:
        self._stub = ToolRegistryServiceStub(signed_channel)

    async def shared_servers(self) -> set[str]:
        kinds = [kind.number for kind in KINDS.values() if kind.shared_only]
        request = pb.ListToolsRequest(page_size=SHARED_PAGE, kinds=kinds)
        servers: set[str] = set()
        with acting_as(Identity(PLATFORM_TENANT, SUBJECT, frozenset({Scope.FACTS_WRITE}))):
            while True:
                reply = await answered(self._stub.ListTools(request))
                specs = [tool.spec for tool in reply.tools if tool.shared]
                resources = (kind_of(spec.kind).resource(spec.connection) for spec in specs)
                servers |= {resource[1] for resource in resources if resource}
                if not reply.next_page_token:
                    return servers
                request.page_token = reply.next_page_token


class FactsReports:
    """Reports facts in the adapters' own name for each tenant."""

    def __init__(self, signed_channel: grpc.aio.Channel, reporter: str) -> None:
        self._stub = ToolRegistryServiceStub(signed_channel)
        self._reporter = reporter

    async def send(self, tenant: str, facts: list[Facts]) -> None:
        request = pb.RecordToolFactsRequest(
            reporter=self._reporter, facts=[_facts_to_proto(entry) for entry in facts]
        )
        with acting_as(Identity(tenant, SUBJECT, frozenset({Scope.FACTS_WRITE}))):
            await answered(self._stub.RecordToolFacts(request))


class LedgerCosts:
    """Holds and posts costs in the adapters' own name for each tenant."""

    def __init__(self, signed_channel: grpc.aio.Channel) -> None:
        self._stub = CostLedgerServiceStub(signed_channel)

    async def hold(self, cost: AdapterCost, worst_case: Sequence[Quantity]) -> None:
        """Raises BudgetExhausted, Unavailable and its like.

        The budgets of the caller's teams, agents and key cover it as they cover its calls.
        """
        caller = current_identity()
        # An operator indexes for a tenant whose teams are others.
        caller = caller if caller.tenant == cost.tenant else Identity(cost.tenant, "", frozenset())
        reserve = ledger_pb.ReserveRequest(
            key=cost.key,
            subject=_subject(cost),
            sku=cost.sku,
            worst_case=quantities_to_proto(worst_case),
            # An unknown price is an unknown cost: what indexes without one continues.
            unknown_price=hold_pb2.UNKNOWN_PRICE_POLICY_ADMIT,
            time_to_live=duration_to_proto(HELD_S),
            dispatched=True,
            teams=sorted(caller.named("team")),
            agents=sorted(caller.named("agent")),
            keys=sorted(caller.named("key")),
        )
        [result] = await self._apply(cost.tenant, [ledger_pb.Operation(reserve=reserve)])
        if result.reserve.HasField("rejection"):
            raise BudgetExhausted(cost.tool, result.reserve.rejection.message)

    async def settle(self, tenant: str, costs: Sequence[AdapterCost]) -> None:
        """Posts each cost once, or releases its hold. Raises Unavailable and its like."""
        await self._apply(tenant, list(map(_settlement, costs)))

    async def _apply(
        self, tenant: str, operations: Sequence[ledger_pb.Operation]
    ) -> Sequence[ledger_pb.OperationResult]:
        request = ledger_pb.ApplyEmbeddingsRequest(operations=operations)
        with acting_as(Identity(tenant, SUBJECT, frozenset({Scope.EMBEDDINGS_RECORD}))):
            return (await answered(self._stub.ApplyEmbeddings(request))).results


def _settlement(cost: AdapterCost) -> ledger_pb.Operation:
    if cost.unused:
        release = ledger_pb.ReleaseRequest(key=cost.key, reason="nothing was bought")
        return ledger_pb.Operation(release=release)
    assert cost.usage is not None
    usage = usage_to_proto(cost.usage)
    if cost.held:
        return ledger_pb.Operation(capture=ledger_pb.CaptureRequest(key=cost.key, usage=usage))
    record = ledger_pb.RecordRequest(
        key=cost.key, subject=_subject(cost), sku=cost.sku, usage=usage
    )
    return ledger_pb.Operation(record=record)


def _subject(cost: AdapterCost) -> hold_pb2.Subject:
    return hold_pb2.Subject(tool=cost.tool, user=cost.subject)


def _facts_to_proto(facts: Facts) -> tool_pb2.ToolFacts:
    unavailable = facts.unavailable
    return tool_pb2.ToolFacts(
        tool_name=facts.tool_name,
        model_alias=facts.model_alias,
        sample_count=facts.sample_count,
        success_rate=facts.success_rate,
        latencies=tool_pb2.LatencyHistogram(counts=facts.latencies.counts),
        usage=quantities_to_proto(facts.usage),
        unavailable_for=duration_to_proto(unavailable.for_s) if unavailable else None,
        unavailable_reason=unavailable.reason if unavailable else "",
    )
