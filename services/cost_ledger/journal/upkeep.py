"""Upkeep of the journal: room for the months to come, and keys that nobody can repeat."""

import asyncio
import logging

from cost_ledger.journal.store_upkeep import UpkeepStore
from podium_kit.rpc.errors import DomainError

log = logging.getLogger(__name__)

INTERVAL_S = 3600.0
MONTHS_AHEAD = 12
KEYS_PER_ROUND = 10_000


async def keep_up_forever(store: UpkeepStore) -> None:
    """Does it every hour until cancelled; several replicas may."""
    while True:
        try:
            await store.make_partitions(MONTHS_AHEAD)
            while await store.prune_keys(KEYS_PER_ROUND) == KEYS_PER_ROUND:
                pass
        except DomainError as error:
            log.warning("the upkeep waits: %s", error.message)
        await asyncio.sleep(INTERVAL_S)
