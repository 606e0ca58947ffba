"""Builds the cost ledger and serves it; the only place where things are constructed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

import telemetry
from cost_ledger.alert_relay import AlertRelay
from cost_ledger.budget_book import BudgetBook
from cost_ledger.config import Settings
from cost_ledger.price_book import PriceBook
from cost_ledger.service import CostLedger
from cost_ledger.servicer import CostLedgerServicer
from cost_ledger.servicer_budgets import BudgetServicer
from cost_ledger.servicer_prices import PriceBookServicer
from cost_ledger.store_alerts import AlertStore
from cost_ledger.store_budgets import BudgetStore
from cost_ledger.store_engine import check, open_engine, open_journal_pool
from cost_ledger.store_journal import JournalStore
from cost_ledger.store_prices import PostgresPriceStore
from cost_ledger.store_reports import ReportStore
from cost_ledger.sweep import sweep_forever
from podium.ledger.v1 import (
    budget_service_pb2_grpc,
    cost_ledger_service_pb2_grpc,
    price_book_service_pb2_grpc,
)
from rpckit.migrations import upgrade
from rpckit.server import Service, run_server
from stream import Producer

# The group that commits, and the sweep beside it.
GROUPS_IN_FLIGHT = 2
MIGRATIONS = Path(__file__).parent / "migrations"


async def serve(settings: Settings) -> None:
    """Migrates the database and serves until SIGTERM."""
    shutdown = telemetry.configure("cost-ledger", settings.telemetry)
    if settings.owner_database_url:
        await upgrade(settings.owner_database_url, MIGRATIONS)
    async with open_services(settings) as (services, engine):
        await run_server(settings, services, {"postgres": partial(check, engine)})
    shutdown()


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[tuple[list[Service], AsyncEngine]]:
    """The three services over one database, the sweep and the relay beside them."""
    engine = open_engine(settings.database_url)
    pool = await open_journal_pool(settings.database_url, size=GROUPS_IN_FLIGHT)
    prices = PriceBook(PostgresPriceStore(engine))
    ledger = CostLedger(JournalStore(pool), ReportStore(engine), prices)
    alerts, producer = AlertStore(engine), Producer(settings.kafka_bootstrap)
    loops = [sweep_forever(ledger, settings.sweep_interval_s)]
    if settings.kafka_bootstrap:
        loops.append(AlertRelay(alerts, producer, settings.alert_topic).run())
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield _services(ledger, prices, BudgetBook(BudgetStore(engine), alerts)), engine
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await ledger.close()
        await producer.close()
        await pool.close()
        await engine.dispose()


def _services(ledger: CostLedger, prices: PriceBook, budgets: BudgetBook) -> list[Service]:
    return [
        Service(
            cost_ledger_service_pb2_grpc.add_CostLedgerServiceServicer_to_server,
            CostLedgerServicer(ledger),
            "podium.ledger.v1.CostLedgerService",
        ),
        Service(
            price_book_service_pb2_grpc.add_PriceBookServiceServicer_to_server,
            PriceBookServicer(prices),
            "podium.ledger.v1.PriceBookService",
        ),
        Service(
            budget_service_pb2_grpc.add_BudgetServiceServicer_to_server,
            BudgetServicer(budgets),
            "podium.ledger.v1.BudgetService",
        ),
    ]
