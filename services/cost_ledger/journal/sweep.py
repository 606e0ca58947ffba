"""The sweep: overdue holds become provisional costs, or nothing if no call was made."""

import asyncio
import logging

from cost_ledger.journal.service import CostLedger
from podium_kit.rpc.errors import DomainError

log = logging.getLogger(__name__)

HOLDS_PER_ROUND = 1000


async def sweep_forever(ledger: CostLedger, interval_s: float) -> None:
    """Sweeps until cancelled; several replicas may, an expiry happens once."""
    while True:
        count = await _sweep(ledger)
        if count < HOLDS_PER_ROUND:
            await asyncio.sleep(interval_s)


async def _sweep(ledger: CostLedger) -> int:
    try:
        count = await ledger.expire_overdue(HOLDS_PER_ROUND)
    except DomainError as error:
        log.warning("the sweep waits: %s", error.message)
        return 0
    if count:
        log.info("%d overdue holds were ended", count)
    return count
