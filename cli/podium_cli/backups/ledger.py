"""That a restored ledger is the one that was backed up, to the last digit."""

import hashlib
import json

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from cost_ledger.audit.store import AuditStore
from cost_ledger.audit.store_anchors import AnchorStore
from cost_ledger.audit.store_invariants import InvariantStore
from cost_ledger.audit.verification import Position, Range, Verification
from cost_ledger.prices.service import PriceBook
from cost_ledger.prices.store import PriceStore
from cost_ledger.prices.store_deletions import PriceDeletion
from podium_cli.backups.manifest import LedgerEnd
from podium_kit.client.errors import UserError

HEADS = text("SELECT tenant, sequence, encode(hash, 'hex') AS hash FROM heads_to_anchor()")
ENTRIES_PER_STEP = 1000


class LedgerDiffers(UserError):
    """What was restored is not what the platform knew."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the ledger of the backup does not verify: {problem}", "restore another backup"
        )


async def ledger_end(connection: AsyncConnection) -> LedgerEnd:
    """Where the journals end in what the connection sees."""
    heads = (await connection.execute(HEADS)).all()
    digest = hashlib.sha256()
    for head in heads:
        digest.update(json.dumps([head.tenant, head.sequence, head.hash]).encode() + b"\n")
    return LedgerEnd(
        tenants=len(heads),
        entries=sum(head.sequence for head in heads),
        heads_sha256=digest.hexdigest(),
    )


async def require_same_ledger(engine: AsyncEngine, expected: LedgerEnd) -> None:
    """Recomputes every hash, amount, balance and root of all tenants. Raises LedgerDiffers."""
    async with engine.connect() as connection:
        found = await ledger_end(connection)
        tenants = [head.tenant for head in (await connection.execute(HEADS)).all()]
    if found != expected:
        raise LedgerDiffers("its journals end elsewhere than the manifest says")
    journal, prices = AuditStore(engine), PriceBook(PriceStore(engine), PriceDeletion(engine))
    verification = Verification(journal, InvariantStore(engine), AnchorStore(engine), prices)
    for tenant in tenants:
        await _require_verified(verification, tenant)


async def _require_verified(verification: Verification, tenant: str) -> None:
    asked, at = Range(1, 0, ENTRIES_PER_STEP), Position(0)
    while True:
        step = await verification.step(tenant, asked, at)
        for finding in step.findings:
            raise LedgerDiffers(f"tenant {tenant}, {finding.row}: {finding.problem}")
        if step.next is None:
            return
        at = step.next
