"""`python -m podium_operations.cluster FILE...`: `podium doctor --cluster` from inside of a pod.

The chart's test runs it with the release's values: one line for each check,
exit status 1 when something is missing.
"""

import asyncio
import sys
from pathlib import Path

from podium_kit.client.errors import UserError
from podium_operations.cluster.api_server import PodAccount
from podium_operations.cluster.examination import examine_cluster


def main() -> int:
    try:
        findings = asyncio.run(examine_cluster([Path(each) for each in sys.argv[1:]], PodAccount()))
    except UserError as error:
        sys.stdout.write(f"{error.cause}; {error.fix}\n")
        return error.exit_status
    for each in findings:
        fix = f"; {each.fix}" if each.fix else ""
        sys.stdout.write(f"{each.what}: {each.finding}{fix}\n")
    return 0 if all(each.well for each in findings) else 1


if __name__ == "__main__":
    raise SystemExit(main())
