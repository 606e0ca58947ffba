"""`python -m podium_operations.bootstrap`: the chart's Job, run in a pod after every install.

Its log is the message: a line for each thing made, and how to fix what is wrong. Exit status 2
says that another attempt would find the same; 1 that it may not.
"""

import asyncio
import logging
import sys

from podium_kit.client.errors import UsageError, UserError
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.settings import load_settings
from podium_operations.bootstrap.cluster_objects import ClusterObjects
from podium_operations.bootstrap.making import Bootstrap
from podium_operations.bootstrap.settings import Settings, read_plan

WRONG, FAILED = 2, 1


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout, force=True)
    # A request for each line would bury the lines that matter.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        settings = load_settings(Settings)
        plan = read_plan(settings.plan_file)
        made = asyncio.run(
            Bootstrap(settings, plan, ClusterObjects(plan.namespace, plan.release)).run()
        )
    except UserError as error:
        sys.stdout.write(f"failed: {error.cause}\nfix: {error.fix}\n")
        return WRONG if isinstance(error, UsageError) else FAILED
    except DomainError as error:
        sys.stdout.write(f"failed: {error.message}\n")
        return FAILED
    sys.stdout.write("ready\n" if made else "ready: nothing had to be made\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
