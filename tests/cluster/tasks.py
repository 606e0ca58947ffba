"""A task through the command that the release's notes print."""

import re
from decimal import Decimal

from cluster.finding import require
from cluster.release import Release, run


def first_task(release: Release) -> str:
    """The second printed command answers by the bundled policy, and the answer has a price."""
    # The answer goes to stdout, the turns and what they cost to stderr.
    said = run("bash", "-c", f"exec 2>&1; {release.printed_commands()[1]}")
    require("Ouagadougou" in said, said)
    require("unknown price" not in said, said)
    cost = re.search(r"\$(\d+\.\d+)", said)
    require(cost is not None and Decimal(cost.group(1)) > 0, said)
    return " ".join(said.split())[-100:]
