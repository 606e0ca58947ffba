"""Connecting to Temporal."""

import asyncio
import logging

from temporalio.client import Client

from episodes.workflows.converter import DATA_CONVERTER
from rpckit.errors import Unavailable

log = logging.getLogger(__name__)

RETRY_INTERVAL_S = 1.0
ATTEMPTS_MAX = 60


class TemporalUnreachable(Unavailable):
    """Temporal's frontend does not answer."""

    def __init__(self, target: str, cause: Exception) -> None:
        super().__init__(
            f"Temporal at {target} does not answer: {cause}; start it, or correct TEMPORAL_TARGET"
        )


async def connect_temporal(target: str, namespace: str, attempts_max: int = ATTEMPTS_MAX) -> Client:
    """A client, once the frontend answers. Raises TemporalUnreachable, by default in a minute."""
    for attempt in range(attempts_max):
        try:
            return await Client.connect(target, namespace=namespace, data_converter=DATA_CONVERTER)
        except RuntimeError as error:
            if attempt == attempts_max - 1:
                raise TemporalUnreachable(target, error) from error
            log.info("Temporal at %s does not answer yet", target)
            await asyncio.sleep(RETRY_INTERVAL_S)
    raise AssertionError("unreachable: the last attempt returns or raises")
