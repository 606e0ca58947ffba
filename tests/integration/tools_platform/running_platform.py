from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc

from builders.ledger_operations import LedgerOperations
from callers import (
    KeyPair,
    client_channel,
    make_identity,
    make_key_pair,
    write_verify_keys,
)
from cost_ledger.config import CostLedgerSettings
from cost_ledger.server import assembled as assembled_ledger
from embedded_servers import Database
from podium.adapters.v1.tool_adapter_service_pb2_grpc import ToolAdapterServiceStub
from podium.ledger.v1.price_book_service_pb2_grpc import PriceBookServiceStub
from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceStub
from podium.registry.v1.tool_registry_service_pb2_grpc import ToolRegistryServiceStub
from podium_kit.rpc.identity import Scope
from podium_kit.rpc.server import running_server
from podium_kit.rpc.settings import SigningKey
from podium_operations.local.keys import SCOPES_OF_SIGNER
from tool_adapters.config import ToolAdaptersSettings
from tool_adapters.server import assembled as assembled_adapters
from tool_registry.config import ToolRegistrySettings
from tool_registry.server import assembled as assembled_registry

# What the episode worker and a tenant's developer may do together.
TENANT_SCOPES = (Scope.EPISODES_RUN, Scope.LEDGER_WRITE, Scope.SPEND_READ)


@dataclass(frozen=True)
class Caller:
    adapters: Any
    registry: Any
    policies: Any
    ledger: Any
    prices: Any


@dataclass(frozen=True)
class Ports:
    ledger: int
    registry: int
    adapters: int


@dataclass
class ToolsPlatform:
    ports: Ports
    keys: KeyPair
    adapters_key: KeyPair
    stack: AsyncExitStack
    adapters_settings: ToolAdaptersSettings
    running_adapters: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def restart_adapters(self) -> None:
        await self.running_adapters.aclose()
        settings, stack = self.adapters_settings, self.running_adapters
        served = await stack.enter_async_context(assembled_adapters(settings))
        port = await stack.enter_async_context(running_server(settings, *served))
        self.ports = replace(self.ports, adapters=port)

    async def as_(self, tenant: str, *scopes: Scope) -> Caller:
        return await self._signed_by(self.keys, tenant, *scopes)

    async def as_adapters(self, tenant: str, *scopes: Scope) -> Caller:
        """The services as seen by a caller that signs any claims with the adapters' key."""
        return await self._signed_by(self.adapters_key, tenant, *scopes)

    async def _signed_by(self, key: KeyPair, tenant: str, *scopes: Scope) -> Caller:
        identity = make_identity(tenant, scopes=scopes)

        async def channel(port: int) -> grpc.aio.Channel:
            opened = client_channel(port, identity, key)
            return await self.stack.enter_async_context(opened)

        ledger, registry = await channel(self.ports.ledger), await channel(self.ports.registry)
        return Caller(
            ToolAdapterServiceStub(await channel(self.ports.adapters)),
            ToolRegistryServiceStub(registry),
            PolicyServiceStub(registry),
            LedgerOperations(ledger),
            PriceBookServiceStub(ledger),
        )

    async def tenant(self, tenant: str = "acme") -> Caller:
        return await self.as_(tenant, *TENANT_SCOPES)

    async def admin(self) -> Caller:
        return await self.as_("platform", Scope.PLATFORM_ADMIN)


@asynccontextmanager
async def running_platform(
    database: Database, folder: Path, **of_adapters: Any
) -> AsyncIterator[ToolsPlatform]:
    keys = make_key_pair()
    # As on a real platform, the adapters' key permits their own calls alone.
    adapters_key = make_key_pair("tool-adapters", SCOPES_OF_SIGNER["tool-adapters"])
    shared: dict[str, Any] = {
        "port": 0,
        "verify_keys_file": write_verify_keys(folder / "keys.json", [keys, adapters_key]),
        "drain_grace_s": 0.0,
    }
    signing = folder / "signing.pem"
    signing.write_text(adapters_key.private_pem)
    async with AsyncExitStack() as stack:
        ledger = CostLedgerSettings(database_url=await database("cost_ledger"), **shared)
        served = await stack.enter_async_context(assembled_ledger(ledger))
        ledger_port = await stack.enter_async_context(running_server(ledger, *served))
        registry = ToolRegistrySettings(
            database_url=await database("tool_registry"),
            cost_ledger_target=f"127.0.0.1:{ledger_port}",
            price_cache_s=0,
            **shared,
        )
        assembled = await stack.enter_async_context(assembled_registry(registry))
        registry_port = await stack.enter_async_context(running_server(registry, *assembled))
        adapters = ToolAdaptersSettings(
            **{"database_url": await database("tool_adapters")} | shared | of_adapters,
            tool_registry_target=f"127.0.0.1:{registry_port}",
            cost_ledger_target=f"127.0.0.1:{ledger_port}",
            signing_key=SigningKey(key_id=adapters_key.key_id, private_key_file=signing),
            mcp_servers_folder=folder / "mcp-servers",
            mcp_follow_interval_s=0.2,
            warm_sandboxes=0,
        )
        ports = Ports(ledger_port, registry_port, 0)
        platform = ToolsPlatform(ports, keys, adapters_key, stack, adapters)
        async with platform.running_adapters:
            await platform.restart_adapters()
            yield platform
