"""Connecting to Temporal."""

import asyncio
import logging

from temporalio.client import Client

from episodes.workflows.converter import DATA_CONVERTER

log = logging.getLogger(__name__)

RETRY_INTERVAL_S = 1.0
ATTEMPTS_MAX = 60


async def connect_temporal(target: str, namespace: str) -> Client:
    """A client, once the frontend answers. Raises RuntimeError after a minute."""
    for attempt in range(ATTEMPTS_MAX):
        try:
            return await Client.connect(target, namespace=namespace, data_converter=DATA_CONVERTER)
        except RuntimeError:
            if attempt == ATTEMPTS_MAX - 1:
                raise
            log.info("Temporal at %s does not answer yet", target)
            await asyncio.sleep(RETRY_INTERVAL_S)
    raise AssertionError("unreachable: the last attempt returns or raises")
