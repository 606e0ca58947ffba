import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy.ext.asyncio import AsyncEngine

from cost_ledger.audit import anchoring
from cost_ledger.audit.anchoring import Anchors
from cost_ledger.audit.service import Audit
from cost_ledger.audit.servicer import AuditServicer
from cost_ledger.audit.store import AuditStore
from cost_ledger.audit.store_anchors import AnchorStore
from cost_ledger.audit.store_invariants import InvariantStore
from cost_ledger.audit.verification import Verification
from cost_ledger.budget_status.service import INTERVAL_S as GAUGES_INTERVAL_S
from cost_ledger.budget_status.service import LedgerGauges
from cost_ledger.budget_status.store import LedgerStatusStore
from cost_ledger.budgets.alert_relay import POLL_INTERVAL_S, AlertRelay
from cost_ledger.budgets.service import BudgetBook
from cost_ledger.budgets.servicer import BudgetServicer
from cost_ledger.budgets.store import AlertStore, BudgetStore
from cost_ledger.config import CostLedgerSettings
from cost_ledger.exports.service import ChargeReader
from cost_ledger.exports.store import ChargeStore
from cost_ledger.invoices.store import InvoiceStore
from cost_ledger.journal.service import CostLedger
from cost_ledger.journal.servicer import CostLedgerServicer
from cost_ledger.journal.store import JournalStore
from cost_ledger.journal.store_reads import INTERVAL_S as UPKEEP_INTERVAL_S
from cost_ledger.journal.store_reads import ReportStore, UpkeepStore, keep_up
from cost_ledger.prices.service import PriceBook
from cost_ledger.prices.servicer import PriceBookServicer
from cost_ledger.prices.store import PriceDeletion, PriceStore
from cost_ledger.spend.store import RollupStore, SpendReports, SpendStore
from cost_ledger.store_engine import open_journal_pool
from podium.ledger.v1 import (
    audit_service_pb2_grpc,
    budget_service_pb2_grpc,
    cost_ledger_service_pb2_grpc,
    price_book_service_pb2_grpc,
)
from podium_kit import telemetry
from podium_kit.anchors import load_private_key
from podium_kit.postgres.engine import check, open_engine
from podium_kit.postgres.migrations import upgrade
from podium_kit.rpc.background import BackgroundTask
from podium_kit.rpc.health import Check
from podium_kit.rpc.server import Service, run_server

log = logging.getLogger(__name__)
MIGRATIONS = Path(__file__).parent / "migrations"


async def serve(settings: CostLedgerSettings) -> None:
    shutdown = telemetry.configure("cost-ledger", settings.telemetry)
    if settings.owner_database_url:
        await upgrade(settings.owner_database_url, MIGRATIONS)
    async with assembled(settings) as served:
        await run_server(settings, *served)
    shutdown()


@asynccontextmanager
async def assembled(
    settings: CostLedgerSettings,
) -> AsyncIterator[tuple[list[Service], dict[str, Check], list[BackgroundTask]]]:
    async with AsyncExitStack() as stack:
        engine = open_engine(settings.database_url)
        stack.push_async_callback(engine.dispose)
        pool = await stack.enter_async_context(await open_journal_pool(settings.database_url))
        prices = PriceBook(PriceStore(engine), PriceDeletion(engine))
        ledger = CostLedger(JournalStore(pool), ReportStore(engine), prices)
        stack.push_async_callback(ledger.close)
        alerts, rollups = AlertStore(engine), RollupStore(engine)
        anchors = Anchors(AnchorStore(engine), anchor_key(settings))
        gauges = LedgerGauges(
            LedgerStatusStore(engine), anchors, publishes=settings.kafka is not None
        )
        upkeep = partial(keep_up, UpkeepStore(engine))
        tasks = [
            BackgroundTask("sweep", ledger.sweep, settings.sweep_interval_s),
            BackgroundTask("roll-up", rollups.advance, settings.rollup_interval_s),
            BackgroundTask("anchoring", anchors.sign_yesterday, anchoring.INTERVAL_S),
            BackgroundTask("upkeep", upkeep, UPKEEP_INTERVAL_S),
            BackgroundTask("ledger-gauges", gauges.poll, GAUGES_INTERVAL_S),
        ]
        if settings.kafka:
            from podium_kit.stream.clients import Producer

            producer = Producer(settings.kafka)
            stack.push_async_callback(producer.close)
            relay = AlertRelay(alerts, producer, settings.alert_topic).relay
            tasks.append(BackgroundTask("alert-relay", relay, POLL_INTERVAL_S))
        services = [
            Service(
                cost_ledger_service_pb2_grpc.add_CostLedgerServiceServicer_to_server,
                CostLedgerServicer(ledger, SpendReports(SpendStore(engine), rollups)),
                "podium.ledger.v1.CostLedgerService",
            ),
            Service(
                price_book_service_pb2_grpc.add_PriceBookServiceServicer_to_server,
                PriceBookServicer(prices),
                "podium.ledger.v1.PriceBookService",
            ),
            Service(
                budget_service_pb2_grpc.add_BudgetServiceServicer_to_server,
                BudgetServicer(BudgetBook(BudgetStore(engine), alerts)),
                "podium.ledger.v1.BudgetService",
            ),
            Service(
                audit_service_pb2_grpc.add_AuditServiceServicer_to_server,
                _audit_servicer(engine, anchors, prices),
                "podium.ledger.v1.AuditService",
            ),
        ]
        yield services, {"postgres": partial(check, engine)}, tasks


def anchor_key(settings: CostLedgerSettings) -> Ed25519PrivateKey | None:
    """Raises InvalidKey, so that a wrong key stops the start."""
    file = settings.anchor_key_file
    if file is None:
        log.warning("COST_LEDGER_ANCHOR_KEY_FILE is unset: daily roots are not signed")
        return None
    return load_private_key(file.read_bytes())


def _audit_servicer(engine: AsyncEngine, anchors: Anchors, prices: PriceBook) -> AuditServicer:
    journal, charges = AuditStore(engine), ChargeReader(ChargeStore(engine), prices)
    audit = Audit(journal, InvoiceStore(engine), anchors, charges)
    verification = Verification(journal, InvariantStore(engine), AnchorStore(engine), prices)
    return AuditServicer(audit, verification, anchors, charges)
