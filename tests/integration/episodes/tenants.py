"""The scripted services on one port, with a script of its own for every tenant.

A cancelled episode may ask once more after its test has ended. What it asks goes to
the script of its own tenant, so no test counts the calls of another.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import grpc
import jwt

from integration.episodes.fixed_policies import FixedPolicies
from integration.episodes.neighbours import (
    FixedRegistry,
    ScriptedAdapters,
    ScriptedOrchestrator,
)
from integration.episodes.simple_ledger import SimpleLedger
from podium.adapters.v1 import tool_adapter_service_pb2_grpc as adapters_rpc
from podium.ledger.v1 import budget_service_pb2_grpc as budget_rpc
from podium.ledger.v1 import cost_ledger_service_pb2_grpc as ledger_rpc
from podium.orchestrator.v1 import orchestrator_service_pb2_grpc as orchestrator_rpc
from podium.registry.v1 import policy_service_pb2_grpc as policies_rpc
from podium.registry.v1 import tool_registry_service_pb2_grpc as registry_rpc
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.status import status_of

if TYPE_CHECKING:
    # Only the stubs know the parameters of these.
    Handler = grpc.RpcMethodHandler[Any, Any]
    Router = grpc.GenericRpcHandler[Any, Any]
else:
    Handler = grpc.RpcMethodHandler
    Router = grpc.GenericRpcHandler


@dataclass
class Neighbours:
    orchestrator: ScriptedOrchestrator = field(default_factory=ScriptedOrchestrator)
    adapters: ScriptedAdapters = field(default_factory=ScriptedAdapters)
    ledger: SimpleLedger = field(default_factory=SimpleLedger)
    registry: FixedRegistry = field(default_factory=FixedRegistry)
    policies: FixedPolicies = field(default_factory=FixedPolicies)

    def handlers(self) -> dict[str, Handler]:
        methods = _Methods()
        server = cast("grpc.aio.Server", methods)
        orchestrator_rpc.add_OrchestratorServiceServicer_to_server(self.orchestrator, server)
        adapters_rpc.add_ToolAdapterServiceServicer_to_server(self.adapters, server)
        ledger_rpc.add_CostLedgerServiceServicer_to_server(self.ledger, server)
        budget_rpc.add_BudgetServiceServicer_to_server(self.ledger, server)
        registry_rpc.add_ToolRegistryServiceServicer_to_server(self.registry, server)
        policies_rpc.add_PolicyServiceServicer_to_server(self.policies, server)
        return methods.by_path


class Outage:
    def __init__(self, methods: tuple[str, ...], error: DomainError | None) -> None:
        self._methods = methods
        self._error = error
        self._over = asyncio.Event()
        self.calls = 0
        """How many calls it met."""

    def end(self) -> None:
        self._over.set()

    def around(self, path: str, handler: Handler) -> Handler:
        if not path.endswith(self._methods) or self._over.is_set():
            return handler

        async def away(request: Any, context: Any) -> Any:
            self.calls += 1
            if self._error is not None:
                await context.abort(*status_of(self._error))
            await self._over.wait()
            return await handler.unary_unary(request, context)  # type: ignore[misc]

        return grpc.unary_unary_rpc_method_handler(
            away, handler.request_deserializer, handler.response_serializer
        )


class TenantNeighbours(Router):
    def __init__(self, others: Neighbours) -> None:
        self._others = others.handlers()
        self._by_tenant: dict[str, dict[str, Handler]] = {}
        self._outages: dict[str, Outage] = {}

    def add(self, tenant: str) -> Neighbours:
        neighbours = Neighbours()
        self._by_tenant[tenant] = neighbours.handlers()
        return neighbours

    def fail(self, tenant: str, *methods: str, error: DomainError | None = None) -> Outage:
        """Stalls these RPCs of a tenant, or has them raise the error, until the outage ends."""
        self._outages[tenant] = Outage(methods, error)
        return self._outages[tenant]

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        tenant, path = _tenant(handler_call_details), handler_call_details.method
        handler = self._by_tenant.get(tenant, self._others).get(path)
        if handler is None or tenant not in self._outages:
            return handler
        return self._outages[tenant].around(path, handler)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[int]:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((self,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        yield port
        await server.stop(0)


class _Methods:
    """Stands where the generated code expects a server, and keeps what it registers."""

    def __init__(self) -> None:
        self.by_path: dict[str, Handler] = {}
        self.add_generic_rpc_handlers: Callable[..., None] = lambda handlers: None

    def add_registered_method_handlers(self, service: str, methods: Mapping[str, Handler]) -> None:
        self.by_path |= {f"/{service}/{name}": handler for name, handler in methods.items()}


def _tenant(call: grpc.HandlerCallDetails) -> str:
    token = str(dict(call.invocation_metadata)["authorization"]).removeprefix("Bearer ")
    return str(jwt.decode(token, options={"verify_signature": False})["tenant"])
