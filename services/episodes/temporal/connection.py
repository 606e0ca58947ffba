"""The connection to Temporal, made anew when its certificate was renewed or it answers no more.

Temporal's client reads its files once; cert-manager renews them long before the old certificate
ends. It also connects again by itself, but an attempt to reach a pod that is gone takes the kernel
over two minutes: a Service's address stays translated to that pod for as long as SYN is repeated.
"""

import asyncio
import logging
from collections.abc import Callable

from temporalio.client import Client
from temporalio.service import RPCError

from episodes.temporal.client import (
    TemporalUnreachable,
    check_temporal,
    connect_temporal,
    connection_security,
)
from episodes.temporal.settings import TemporalSettings
from podium_kit.rpc.errors import Unavailable

log = logging.getLogger(__name__)

RENEWAL_INTERVAL_S = 10.0
ANSWER_TIMEOUT_S = 5.0


class TemporalConnection:
    """Whichever client is current, as `client`; open it with `open`, keep it with `renew`."""

    def __init__(
        self, target: str, namespace: str, settings: TemporalSettings, client: Client
    ) -> None:
        self.client = client
        self._target = target
        self._namespace = namespace
        self._settings = settings
        self._security = connection_security(settings)
        self._followers: list[Callable[[Client], None]] = []

    @classmethod
    async def open(
        cls, target: str, namespace: str, settings: TemporalSettings
    ) -> "TemporalConnection":
        """Connected. Raises TemporalUnreachable after a minute without the frontend."""
        client = await connect_temporal(target, namespace, settings)
        return cls(target, namespace, settings, client)

    def follow(self, use: Callable[[Client], None]) -> None:
        """Passes every later client to an object that keeps its own, such as a worker."""
        self._followers.append(use)

    async def renew(self) -> None:
        """Connects with the files as they are, if they changed or the frontend does not answer on
        the connection that there is; call it every RENEWAL_INTERVAL_S.

        Raises OSError and TemporalUnreachable, with the old client in place: the renewal is half
        written, or the frontend is away.
        """
        security = connection_security(self._settings)
        renewed = security != self._security
        if not renewed and await self._answers():
            return
        self.client, self._security = await self._connected(), security
        for use in self._followers:
            use(self.client)
        if renewed:
            log.info("certificate %s was renewed", self._settings.certificate)
        else:
            log.info("connected to Temporal at %s again", self._target)

    async def _answers(self) -> bool:
        try:
            await asyncio.wait_for(check_temporal(self.client), ANSWER_TIMEOUT_S)
        except (RPCError, Unavailable, TimeoutError):
            return False
        return True

    async def _connected(self) -> Client:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await connect_temporal(
                    self._target, self._namespace, self._settings, attempts_max=1
                )
        except TimeoutError:
            late = TimeoutError(f"no connection within {ANSWER_TIMEOUT_S:g} s")
            raise TemporalUnreachable(self._target, late) from None
