"""What a complaint is tried with: one tenant's calls, budgets and journal."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeVar

import grpc

from integration.cost_ledger.builders import (
    make_budget,
    make_capture,
    make_price,
    make_record,
    make_reserve,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger
from podium.common.v1 import usage_pb2
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.rpc.identity import Scope

T = TypeVar("T")


@dataclass(frozen=True)
class Replicas:
    """Two servers over one database."""

    first: RunningLedger
    second: RunningLedger


@dataclass(frozen=True)
class Books:
    """One tenant's view of the ledger."""

    replicas: Replicas
    tenant: str

    @cached_property
    def worker(self) -> Client:
        """The episode worker, on the first replica."""
        return self.replicas.first.as_(self.tenant)

    @cached_property
    def other_worker(self) -> Client:
        """The same on the second replica."""
        return self.replicas.second.as_(self.tenant)

    @cached_property
    def admin(self) -> Client:
        """The tenant's admin."""
        return self.replicas.first.as_(self.tenant, Scope.TENANT_ADMIN)

    async def add_budget(self, id: str = "cap", limit: str = "1", **fields: Any) -> None:
        """Limits the tenant, or what the fields say."""
        request = budgets_pb.CreateBudgetRequest(budget=make_budget(id, limit, **fields))
        await self.admin.budgets.CreateBudget(request)

    async def add_price(
        self, sku: str, components: Mapping[str, tuple[str, str]], **fields: Any
    ) -> None:
        """A price of this tenant alone."""
        spec = make_price(sku, components, tenant=self.tenant, **fields)
        operator = self.replicas.first.as_("operator", Scope.PLATFORM_ADMIN)
        await operator.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[spec]))

    async def status(self, id: str = "cap") -> budgets_pb.BudgetStatus:
        """What a budget counts now."""
        return (await self.worker.budgets.GetBudget(budgets_pb.GetBudgetRequest(id=id))).status

    async def reserve(self, key: str = "", **fields: Any) -> pb.ReserveResponse:
        """Holds the worst case of a call."""
        return await self.worker.ledger.Reserve(make_reserve(key, **fields))

    async def capture(self, key: str, usage: usage_pb2.Usage | None = None) -> hold_pb2.Entry:
        """Posts what a held call used."""
        return (await self.worker.ledger.Capture(make_capture(key, usage))).entry

    async def record(self, key: str = "", **fields: Any) -> hold_pb2.Entry:
        """Posts a call that had no hold."""
        return (await self.worker.ledger.Record(make_record(key, **fields))).entry

    async def entries(self, *kinds: int) -> list[hold_pb2.Entry]:
        """The journal, oldest first."""
        request = pb.ListEntriesRequest(page_size=1000, kinds=kinds)  # type: ignore[arg-type]
        return list((await self.worker.ledger.ListEntries(request)).entries)

    async def charged(self) -> list[str]:
        """The keys that were charged for, as the journal has them."""
        entries = await self.entries(hold_pb2.ENTRY_KIND_CAPTURE, hold_pb2.ENTRY_KIND_RECORD)
        return [entry.key for entry in entries]

    async def spent(self) -> Decimal:
        """Dollars of the tenant's one-row report."""
        (row,) = (await self.worker.ledger.ReportSpend(pb.ReportSpendRequest())).rows
        return sum((Decimal(amount.amount) for amount in row.amounts), Decimal(0))


async def admitted(calls: Iterable[Awaitable[pb.ReserveResponse]]) -> int:
    """How many of the calls, all asked at once, were admitted."""
    return sum(answer.HasField("hold") for answer in await asyncio.gather(*calls))


async def until_answered(call: Callable[[], Awaitable[T]]) -> T:
    """Asks again while the ledger is away, as every caller does."""
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE, error
            await asyncio.sleep(0.05)
