"""`make bench-tools`: how well tools are ranked, how fast resolved, allowed and called."""

import argparse
import asyncio

from bench.figures import Figures
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


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"any of {', '.join(PARTS)}")
    figures = Figures("tools")
    for part in parser.parse_args().parts:
        await PARTS[part](figures)
    figures.write()


if __name__ == "__main__":
    asyncio.run(main())
