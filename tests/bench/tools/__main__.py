"""`make bench-tools`: how well tools are ranked, how fast resolved, allowed and called."""

import asyncio

from bench.figures import measure_parts
from bench.tools.decisions import measure_decisions
from bench.tools.overhead import measure_overhead
from bench.tools.ranking import measure_ranking
from bench.tools.resolving import measure_resolving
from bench.tools.slow_tools import measure_slow_tools

PARTS = {
    "ranking": measure_ranking,
    "resolving": measure_resolving,
    "decisions": measure_decisions,
    "overhead": measure_overhead,
    "slow-tools": measure_slow_tools,
}

if __name__ == "__main__":
    asyncio.run(measure_parts("tools", __doc__, PARTS))
