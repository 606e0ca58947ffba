"""`python -m podium_cli.controller`: keeps the platform as the objects of its namespaces say."""

import asyncio
import logging
import sys

import kopf

from podium_cli.controller.handlers import Handlers
from podium_cli.controller.settings import Settings
from podium_cli.controller.tenants import Tenants
from podium_kit.rpc.settings import load_settings


def main() -> int:
    """Runs until SIGTERM."""
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
