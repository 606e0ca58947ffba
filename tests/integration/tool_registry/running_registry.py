from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc

from callers import (
    KeyPair,
    client_channel,
    make_identity,
    make_key_pair,
    write_verify_keys,
)
from podium.ledger.v1 import budget_service_pb2 as budget_pb
from podium.ledger.v1 import price_book_service_pb2 as ledger_pb
from podium.ledger.v1 import price_book_service_pb2_grpc as ledger_rpc
from podium.ledger.v1.budget_service_pb2_grpc import (
    BudgetServiceServicer,
    add_BudgetServiceServicer_to_server,
)
from podium.registry.v1 import policy_pb2, tool_pb2
from podium.registry.v1 import policy_service_pb2 as policies_pb
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceStub
from podium.registry.v1.tool_registry_service_pb2_grpc import ToolRegistryServiceStub
from podium_kit.postgres.migrations import upgrade
from podium_kit.rpc.identity import Identity, Scope, current_identity
from podium_kit.rpc.server import Service, running_server
from podium_kit.rpc.settings import ServerSettings
from tool_registry.config import ToolRegistrySettings
from tool_registry.server import MIGRATIONS, assembled


class GivenPrices(ledger_rpc.PriceBookServiceServicer):
    def __init__(self) -> None:
        self.prices: dict[str, dict[str, ledger_pb.Price]] = {"": {}}

    def give(self, *prices: ledger_pb.Price, tenant: str = "") -> None:
        self.prices.setdefault(tenant, {}).update({price.spec.sku: price for price in prices})

    async def CreatePrices(
        self, request: ledger_pb.CreatePricesRequest, context: Any
    ) -> ledger_pb.CreatePricesResponse:
        raise NotImplementedError("the registry only reads prices")

    async def DeletePrices(
        self, request: ledger_pb.DeletePricesRequest, context: Any
    ) -> ledger_pb.DeletePricesResponse:
        raise NotImplementedError("the registry only reads prices")

    async def ListPrices(
        self, request: ledger_pb.ListPricesRequest, context: Any
    ) -> ledger_pb.ListPricesResponse:
        raise NotImplementedError("the registry asks for effective prices")

    async def GetEffectivePrices(
        self, request: ledger_pb.GetEffectivePricesRequest, context: Any
    ) -> ledger_pb.GetEffectivePricesResponse:
        known = self.prices[""] | self.prices.get(current_identity().tenant, {})
        found = {sku: known[sku] for sku in request.skus if sku in known}
        return ledger_pb.GetEffectivePricesResponse(prices=found)


class GivenBudgets(BudgetServiceServicer):
    def __init__(self) -> None:
        self.ids: set[str] = set()

    async def GetBudget(
        self, request: budget_pb.GetBudgetRequest, context: Any
    ) -> budget_pb.GetBudgetResponse:
        if request.id not in self.ids:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no budget {request.id}")
        return budget_pb.GetBudgetResponse()

    async def _unasked(self, request: Any, context: Any) -> Any:
        raise NotImplementedError("the registry only asks whether a budget exists")

    CreateBudget = ListBudgets = UpdateBudget = RaiseBudget = CloseBudget = ListAlerts = _unasked
    ListBudgetWindows = _unasked


@dataclass
class Clock:
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> None:
        self.now += by


@dataclass(frozen=True)
class Caller:
    tools: Any
    policies: Any

    async def register(self, spec: tool_pb2.ToolSpec, **options: bool) -> pb.RegisterToolResponse:
        request = pb.RegisterToolRequest(spec=spec, **options)
        reply: pb.RegisterToolResponse = await self.tools.RegisterTool(request)
        return reply

    async def get(self, name: str, version: int = 0) -> tool_pb2.Tool:
        request = pb.GetToolRequest(name=name, version=version)
        reply: pb.GetToolResponse = await self.tools.GetTool(request)
        return reply.tool

    async def names(self, **request: Any) -> list[str]:
        reply = await self.tools.ListTools(pb.ListToolsRequest(**request))
        return [tool.spec.name for tool in reply.tools]

    async def deprecate(self, name: str, version: int = 0) -> list[int]:
        request = pb.DeprecateToolRequest(name=name, version=version)
        return [tool.version for tool in (await self.tools.DeprecateTool(request)).tools]

    async def resolve(
        self, policy: str = "", *tool_names: str, **price_factors: str
    ) -> pb.ResolveToolsetResponse:
        request = pb.ResolveToolsetRequest(
            policy=policy, tool_names=tool_names, price_factors=price_factors
        )
        reply: pb.ResolveToolsetResponse = await self.tools.ResolveToolset(request)
        return reply

    async def record(self, *facts: tool_pb2.ToolFacts, reporter: str = "adapters-1") -> None:
        await self.tools.RecordToolFacts(pb.RecordToolFactsRequest(reporter=reporter, facts=facts))

    async def create_policy(
        self, name: str = "mine", validate_only: bool = False, **fields: Any
    ) -> policies_pb.CreatePolicyResponse:
        fields.setdefault("unknown_price", policy_pb2.UNKNOWN_PRICE_RULE_ADMIT)
        spec = policy_pb2.PolicySpec(name=name, **fields)
        request = policies_pb.CreatePolicyRequest(spec=spec, validate_only=validate_only)
        reply: policies_pb.CreatePolicyResponse = await self.policies.CreatePolicy(request)
        return reply

    async def bind(self, policy: str, principal: str) -> policy_pb2.PolicyBinding:
        request = policies_pb.BindPolicyRequest(policy=policy, principal=principal)
        reply: policies_pb.BindPolicyResponse = await self.policies.BindPolicy(request)
        return reply.binding

    async def unbind(self, policy: str, principal: str) -> policy_pb2.PolicyBinding:
        request = policies_pb.UnbindPolicyRequest(policy=policy, principal=principal)
        reply: policies_pb.UnbindPolicyResponse = await self.policies.UnbindPolicy(request)
        return reply.binding

    async def decided(self, policy: str, tool: str = "mail") -> policies_pb.CallDecision:
        call = policies_pb.PlannedCall(tool_name=tool, tool_version=1)
        request = policies_pb.CheckCallsRequest(policy=policy, calls=[call])
        decision: policies_pb.CallDecision = (await self.policies.CheckCalls(request)).decisions[0]
        return decision


@dataclass
class RunningRegistry:
    port: int
    prices: GivenPrices
    budgets: GivenBudgets
    clock: Clock
    keys: KeyPair
    channels: list[grpc.aio.Channel] = field(default_factory=list)

    def as_(self, tenant: str = "acme", *scopes: Scope) -> Caller:
        return self.calling(make_identity(tenant, scopes=scopes or (Scope.TENANT_ADMIN,)))

    def calling(self, identity: Identity) -> Caller:
        channel = client_channel(self.port, identity, self.keys)
        # A stub does not keep its channel; a collected channel closes.
        self.channels.append(channel)
        return Caller(ToolRegistryServiceStub(channel), PolicyServiceStub(channel))

    def platform(self) -> Caller:
        return self.as_("platform", Scope.PLATFORM_ADMIN)


@asynccontextmanager
async def running_registry(
    database_url: str,
    folder: Path,
    ledger_target: str = "",
    later_by: timedelta = timedelta(0),
    keys: KeyPair | None = None,
    **changes: Any,
) -> AsyncIterator[RunningRegistry]:
    keys, prices, budgets = keys or make_key_pair(), GivenPrices(), GivenBudgets()
    clock = Clock()
    clock.advance(later_by)
    keys_file = write_verify_keys(folder / "keys.json", [keys])
    ledger_settings = ServerSettings(port=0, verify_keys_file=keys_file, drain_grace_s=0)
    book = Service(
        ledger_rpc.add_PriceBookServiceServicer_to_server,
        prices,
        "podium.ledger.v1.PriceBookService",
    )
    budget_book = Service(
        add_BudgetServiceServicer_to_server, budgets, "podium.ledger.v1.BudgetService"
    )
    await upgrade(database_url, MIGRATIONS)
    async with running_server(ledger_settings, [book, budget_book], {}) as ledger_port:
        settings = ToolRegistrySettings(
            port=0,
            verify_keys_file=keys_file,
            drain_grace_s=0,
            database_url=database_url,
            cost_ledger_target=ledger_target or f"127.0.0.1:{ledger_port}",
            **({"price_cache_s": 0} | changes),
        )
        async with (
            assembled(settings, clock) as served,
            running_server(settings, *served) as port,
        ):
            registry = RunningRegistry(port, prices, budgets, clock, keys)
            yield registry
            for channel in registry.channels:
                await channel.close(None)


async def rejected(call: Any) -> grpc.aio.AioRpcError:
    """The error a call ends with; a call that succeeds fails the test."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError("the call succeeded")
