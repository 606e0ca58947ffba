"""The scripted services on one port, with a script of its own for every tenant.

A cancelled episode may ask once more after its test has ended. What it asks goes to
the script of its own tenant, so no test counts the calls of another.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import grpc
import jwt

from integration.episodes.neighbours import (
    FixedPolicies,
    FixedRegistry,
    ScriptedAdapters,
    ScriptedOrchestrator,
    SimpleLedger,
)
from podium.adapters.v1 import tool_adapter_service_pb2_grpc as adapters_rpc
from podium.ledger.v1 import budget_service_pb2_grpc as budget_rpc
from podium.ledger.v1 import cost_ledger_service_pb2_grpc as ledger_rpc
from podium.orchestrator.v1 import orchestrator_service_pb2_grpc as orchestrator_rpc
from podium.registry.v1 import policy_service_pb2_grpc as policies_rpc
from podium.registry.v1 import tool_registry_service_pb2_grpc as registry_rpc

if TYPE_CHECKING:
    # Only the stubs know the parameters of these.
    Handler = grpc.RpcMethodHandler[Any, Any]
    Router = grpc.GenericRpcHandler[Any, Any]
else:
    Handler = grpc.RpcMethodHandler
    Router = grpc.GenericRpcHandler


@dataclass
class Neighbours:
    """The scripted services as one tenant sees them."""

    orchestrator: ScriptedOrchestrator = field(default_factory=ScriptedOrchestrator)
    adapters: ScriptedAdapters = field(default_factory=ScriptedAdapters)
    ledger: SimpleLedger = field(default_factory=SimpleLedger)
    registry: FixedRegistry = field(default_factory=FixedRegistry)
    policies: FixedPolicies = field(default_factory=FixedPolicies)

    def handlers(self) -> dict[str, Handler]:
        """The handlers of all RPCs by the path of their method."""
        methods = _Methods()
        server = cast("grpc.aio.Server", methods)
        orchestrator_rpc.add_OrchestratorServiceServicer_to_server(self.orchestrator, server)
        adapters_rpc.add_ToolAdapterServiceServicer_to_server(self.adapters, server)
        ledger_rpc.add_CostLedgerServiceServicer_to_server(self.ledger, server)
        budget_rpc.add_BudgetServiceServicer_to_server(self.ledger, server)
        registry_rpc.add_ToolRegistryServiceServicer_to_server(self.registry, server)
        policies_rpc.add_PolicyServiceServicer_to_server(self.policies, server)
        return methods.by_path


class TenantNeighbours(Router):
    """Sends a call to the neighbours of its tenant, or to `others` if it has none."""

    def __init__(self, others: Neighbours) -> None:
        self._others = others.handlers()
        self._by_tenant: dict[str, dict[str, Handler]] = {}

    def add(self, tenant: str) -> Neighbours:
        """Neighbours for one tenant alone."""
        neighbours = Neighbours()
        self._by_tenant[tenant] = neighbours.handlers()
        return neighbours

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        handlers = self._by_tenant.get(_tenant(handler_call_details), self._others)
        return handlers.get(handler_call_details.method)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[int]:
        """Serves all of them; yields the port."""
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
