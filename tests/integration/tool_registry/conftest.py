"""The tool registry behind a real channel, with a price book that a test fills."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest_asyncio

from podium.ledger.v1 import price_book_service_pb2 as price_pb
from podium.ledger.v1 import price_book_service_pb2_grpc as price_rpc
from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceStub
from podium.registry.v1.tool_registry_service_pb2_grpc import ToolRegistryServiceStub
from rpckit.channel import open_channel
from rpckit.identity import Scope
from rpckit.migrations import upgrade
from rpckit.server import running_server
from rpckit.testing import KeyPair, client_channel, make_identity, make_key_pair, write_verify_keys
from tool_registry.clients import PriceBook
from tool_registry.config import Settings
from tool_registry.server import MIGRATIONS, services
from tool_registry.store_engine import check, open_engine

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceAsyncStub
    from podium.registry.v1.tool_registry_service_pb2_grpc import ToolRegistryServiceAsyncStub


class PriceBookOf(price_rpc.PriceBookServiceServicer):
    """A price book with the given prices."""

    def __init__(self) -> None:
        self.prices: dict[str, price_pb.PriceSpec] = {}

    async def GetEffectivePrices(
        self,
        request: price_pb.GetEffectivePricesRequest,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> price_pb.GetEffectivePricesResponse:
        known = {sku: self.prices[sku] for sku in request.skus if sku in self.prices}
        return price_pb.GetEffectivePricesResponse(
            prices={sku: price_pb.Price(id=sku, spec=spec) for sku, spec in known.items()}
        )


@dataclass
class RegistryUnderTest:
    """A running registry and how to call it."""

    port: int
    keys: KeyPair
    prices: dict[str, price_pb.PriceSpec] = field(default_factory=dict)

    @asynccontextmanager
    async def tools(
        self, tenant: str = "acme", scope: Scope = Scope.TENANT_ADMIN
    ) -> AsyncIterator["ToolRegistryServiceAsyncStub"]:
        """A client of ToolRegistryService."""
        identity = make_identity(tenant=tenant, scopes=[scope])
        async with client_channel(self.port, identity, self.keys) as channel:
            yield ToolRegistryServiceStub(channel)

    @asynccontextmanager
    async def policies(self, tenant: str = "acme") -> AsyncIterator["PolicyServiceAsyncStub"]:
        """A client of PolicyService."""
        async with client_channel(self.port, make_identity(tenant=tenant), self.keys) as channel:
            yield PolicyServiceStub(channel)


@pytest_asyncio.fixture
async def registry(
    database: Callable[[], Awaitable[str]], tmp_path: Path
) -> AsyncIterator[RegistryUnderTest]:
    url, keys, book = await database(), make_key_pair(), PriceBookOf()  # type: ignore[abstract]
    prices = grpc.aio.server()
    price_rpc.add_PriceBookServiceServicer_to_server(book, prices)
    price_port = prices.add_insecure_port("127.0.0.1:0")
    await prices.start()
    await upgrade(url, MIGRATIONS)
    engine = open_engine(url)
    settings = Settings(
        port=0,
        verify_keys_file=write_verify_keys(tmp_path / "keys.json", [keys]),
        database_url=url,
        cost_ledger_target=f"127.0.0.1:{price_port}",
    )
    price_book = PriceBook(open_channel(settings.cost_ledger_target))
    checks = {"postgres": lambda: check(engine)}
    async with running_server(settings, services(engine, price_book), checks) as port:
        yield RegistryUnderTest(port, keys, book.prices)
    await engine.dispose()
    await prices.stop(0)
