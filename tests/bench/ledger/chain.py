"""What the hash chain costs: the time to link one entry, of the size the benchmark posts."""

import timeit

from bench.ledger.product_sql import decided_entry
from cost_ledger.chain import GENESIS, link

ENTRIES = 20_000


def link_seconds() -> float:
    """Seconds to compute the hash of one entry."""
    entry = decided_entry()
    return min(timeit.repeat(lambda: link(GENESIS, entry), number=ENTRIES, repeat=3)) / ENTRIES
