"""The real cost ledger on a real database, and clients of any caller for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from builders.ledger_operations import LedgerOperations
from callers import (
    KeyPair,
    client_channel,
    make_identity,
    make_key_pair,
    write_verify_keys,
)
from cost_ledger.config import CostLedgerSettings
from cost_ledger.server import MIGRATIONS, assembled
from cost_ledger.store_engine import tenant_transaction
from integration.cost_ledger.builders import make_budget
from podium.ledger.v1 import audit_pb2, hold_pb2
from podium.ledger.v1 import audit_service_pb2 as pb
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1.audit_service_pb2_grpc import AuditServiceStub
from podium.ledger.v1.budget_service_pb2_grpc import BudgetServiceStub
from podium.ledger.v1.price_book_service_pb2_grpc import PriceBookServiceStub
from podium_kit.postgres.migrations import upgrade
from podium_kit.rpc.identity import Scope
from podium_kit.rpc.server import running_server

if TYPE_CHECKING:  # the stub generator's async types exist for type checkers alone
    from podium.ledger.v1.audit_service_pb2_grpc import AuditServiceAsyncStub
    from podium.ledger.v1.budget_service_pb2_grpc import BudgetServiceAsyncStub
    from podium.ledger.v1.price_book_service_pb2_grpc import PriceBookServiceAsyncStub

Answer = TypeVar("Answer")
WORKER_SCOPES = (Scope.LEDGER_WRITE, Scope.SPEND_READ)


@dataclass(frozen=True)
class Client:
    ledger: LedgerOperations
    prices: "PriceBookServiceAsyncStub"
    budgets: "BudgetServiceAsyncStub"
    audit: "AuditServiceAsyncStub"

    async def add_budget(
        self, id: str = "cap", limit: str = "1", **fields: Any
    ) -> budgets_pb.Budget:
        request = budgets_pb.CreateBudgetRequest(budget=make_budget(id, limit, **fields))
        return (await self.budgets.CreateBudget(request)).budget

    async def status(self, id: str = "cap") -> budgets_pb.BudgetStatus:
        return (await self.budgets.GetBudget(budgets_pb.GetBudgetRequest(id=id))).status

    async def entries(self, **fields: Any) -> list[hold_pb2.Entry]:
        request = ledger_pb.ListEntriesRequest(**fields)
        return list((await self.ledger.ListEntries(request)).entries)


@dataclass
class RunningLedger:
    port: int
    database_url: str
    keys: KeyPair
    channels: list[grpc.aio.Channel] = field(default_factory=list)

    def as_(self, tenant: str = "acme", *scopes: Scope, subject: str = "ada") -> Client:
        """A client of a role, by default the episode worker, which may also read."""
        identity = make_identity(tenant, subject, scopes or WORKER_SCOPES)
        channel = client_channel(self.port, identity, self.keys)
        self.channels.append(channel)
        return Client(
            LedgerOperations(channel),
            PriceBookServiceStub(channel),
            BudgetServiceStub(channel),
            AuditServiceStub(channel),
        )

    def admin(self) -> Client:
        return self.as_("acme", Scope.PLATFORM_ADMIN)


def as_service(owner_url: str) -> str:
    """The URL of the role that the service logs in as: it owns nothing in the database."""
    url = make_url(owner_url).set(username="cost_ledger_service")
    return url.render_as_string(hide_password=False)


@asynccontextmanager
async def running_ledger(
    database_url: str, tmp_path: Path, sweep_interval_s: float = 600.0, **settings: Any
) -> AsyncIterator[RunningLedger]:
    keys = make_key_pair()
    config = CostLedgerSettings(
        port=0,
        verify_keys_file=write_verify_keys(tmp_path / "keys.json", [keys]),
        database_url=as_service(database_url),
        sweep_interval_s=sweep_interval_s,
        **settings,
    )
    await upgrade(database_url, MIGRATIONS)
    async with assembled(config) as served, running_server(config, *served) as port:
        ledger = RunningLedger(port, database_url, keys)
        yield ledger
        for channel in ledger.channels:
            await channel.close(None)


async def findings_of(client: Client) -> list[audit_pb2.Finding]:
    request = pb.VerifyLedgerRequest()
    found: list[audit_pb2.Finding] = []
    while True:
        page = await client.audit.VerifyLedger(request)
        found.extend(page.findings)
        request.page_token = page.next_page_token
        if not request.page_token:
            return found


async def code_of(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await call
    return rejected.value.code()


async def rejection_of(
    call: Any, code: grpc.StatusCode = grpc.StatusCode.FAILED_PRECONDITION
) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await call
    assert rejected.value.code() is code, rejected.value
    return str(rejected.value.details())


async def until_answered(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Asks again while the ledger is away, as every caller does."""
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE, error
            await asyncio.sleep(0.05)


@asynccontextmanager
async def as_owner(ledger: RunningLedger) -> AsyncIterator[AsyncConnection]:
    engine = create_async_engine(ledger.database_url)
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def as_tenants(ledger: RunningLedger, *tenants: str) -> AsyncIterator[AsyncConnection]:
    """A transaction of the service within the scope of the tenants."""
    engine = create_async_engine(as_service(ledger.database_url))
    try:
        async with tenant_transaction(engine, *tenants) as connection:
            yield connection
    finally:
        await engine.dispose()


async def set_clock(ledger: RunningLedger, offset: str) -> None:
    """Moves the ledger's clock by an SQL interval."""
    async with as_owner(ledger) as connection:
        await connection.execute(
            text(f"""
            CREATE OR REPLACE FUNCTION ledger_clock() RETURNS timestamptz VOLATILE LANGUAGE sql
            RETURN clock_timestamp() + interval '{offset}'
            """)
        )


async def rows_of(connection: AsyncConnection, query: str, **values: object) -> list[Any]:
    return [tuple(row) for row in await connection.execute(text(query), values)]
