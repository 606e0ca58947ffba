"""`python -m podium_operations.controller`: applies the objects of its namespaces."""

import asyncio
import logging
import sys

import kopf

from podium_kit.rpc.settings import load_settings
from podium_operations.controller.handlers import Handlers
from podium_operations.controller.kinds import Tenants
from podium_operations.controller.settings import Settings


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout, force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    settings = load_settings(Settings)
    registry = kopf.OperatorRegistry()
    Handlers(settings, Tenants(settings)).register(registry)
    asyncio.run(
        kopf.operator(
            registry=registry,
            namespaces=list(settings.namespaces),
            clusterwide=False,
            standalone=True,
            liveness_endpoint=f"http://0.0.0.0:{settings.health_port}/healthz",
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
