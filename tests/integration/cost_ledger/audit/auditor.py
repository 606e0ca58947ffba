from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from cost_ledger.spend.store import RollupStore
from integration.cost_ledger.builders import (
    make_capture,
    make_record,
    make_reserve,
    make_subject,
    make_usage,
)
from integration.cost_ledger.running_ledger import Client, RunningLedger, as_service
from podium.common.v1 import usage_pb2
from podium.ledger.v1 import audit_pb2, audit_service_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium_kit.postgres.engine import open_engine
from podium_kit.rpc.identity import Scope


async def fill(ledger: RunningLedger) -> None:
    """Entries 1 to 9: a captured call, a released one, an estimate and what settled it (7 and 8),
    an unknown price."""
    worker, admin = ledger.as_("acme"), ledger.as_("acme", Scope.TENANT_ADMIN)
    await worker.ledger.Reserve(make_reserve("a"))
    await worker.ledger.Capture(make_capture("a"))
    await worker.ledger.Reserve(make_reserve("b"))
    await worker.ledger.Release(pb.ReleaseRequest(key="b"))
    await worker.ledger.Reserve(make_reserve("c"))
    estimate = make_capture("c")
    estimate.usage.source = usage_pb2.USAGE_SOURCE_ESTIMATED
    await worker.ledger.Capture(estimate)
    truth = make_usage(input_fresh=100, output_text=10)
    await admin.ledger.Settle(pb.SettleRequest(key="c", usage=truth))
    await worker.ledger.Record(
        make_record("d", sku="unknown/model", subject=make_subject(tool="search"))
    )


async def verified(worker: Client, page_size: int = 3) -> list[audit_pb2.Finding]:
    found: list[audit_pb2.Finding] = []
    token = ""
    while True:
        step = await worker.audit.VerifyLedger(
            audit_service_pb2.VerifyLedgerRequest(page_size=page_size, page_token=token)
        )
        found += step.findings
        token = step.next_page_token
        if not token:
            return found


async def roll_up(ledger: RunningLedger) -> int:
    engine = open_engine(as_service(ledger.database_url))
    added = await RollupStore(engine).advance()
    await engine.dispose()
    return added


async def as_superuser(database_url: str, *statements: str) -> None:
    """Changes what no role of the service can change, with all triggers off."""
    engine = create_async_engine(database_url)
    async with engine.begin() as connection:
        await connection.execute(text("SET session_replication_role = replica"))
        for statement in statements:
            await connection.execute(text(statement))
    await engine.dispose()
