"""`make bench-tools`: what an episode may use and whether a call may be made, and how fast."""

import argparse
import asyncio

from bench.figures import Figures
from bench.tools.decisions import measure_decisions
from bench.tools.resolving import measure_resolving

PARTS = {"resolving": measure_resolving, "decisions": measure_decisions}


async def main() -> None:
    """Runs the parts asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"any of {', '.join(PARTS)}")
    figures = Figures("tools")
    for part in parser.parse_args().parts:
        await PARTS[part](figures)
    figures.write()


if __name__ == "__main__":
    asyncio.run(main())
