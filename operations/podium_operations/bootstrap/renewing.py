"""`python -m podium_operations.bootstrap.renewing`: the CronJob that renews certificates.

Services take a renewed one up without a restart.
"""

import asyncio
import logging
import sys

from podium_kit.client.errors import UserError
from podium_kit.rpc.settings import load_settings
from podium_operations.bootstrap.certificates import ensure_certificates
from podium_operations.bootstrap.cluster_objects import ClusterObjects
from podium_operations.bootstrap.settings import Settings, read_plan


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout, force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        plan = read_plan(load_settings(Settings).plan_file)
        assert plan.certificates, "the chart makes no CronJob without certificates"
        objects = ClusterObjects(plan.namespace, plan.release)
        made = asyncio.run(ensure_certificates(objects, plan.certificates))
    except UserError as error:
        sys.stdout.write(f"failed: {error.cause}\nfix: {error.fix}\n")
        return 1
    sys.stdout.write("".join(f"made: {each}\n" for each in made) or "every certificate lasts\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
