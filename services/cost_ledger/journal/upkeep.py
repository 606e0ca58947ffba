from cost_ledger.journal.store_reads import UpkeepStore

INTERVAL_S = 3600.0
MONTHS_AHEAD = 12
KEYS_PER_ROUND = 10_000


async def keep_up(store: UpkeepStore) -> bool:
    """Runs one round, and returns whether another is due at once. Several replicas may."""
    await store.make_partitions(MONTHS_AHEAD)
    return await store.prune_keys(KEYS_PER_ROUND) == KEYS_PER_ROUND
