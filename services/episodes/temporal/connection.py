"""The connection to Temporal, made anew when its certificate was renewed.

Temporal's client reads its files once. cert-manager renews them long before the old certificate
ends, so looking at them once a minute is soon enough; nothing restarts.
"""

import logging
from collections.abc import Callable

from temporalio.client import Client

from episodes.temporal.client import connect_temporal, connection_security
from episodes.temporal.settings import TemporalSettings

log = logging.getLogger(__name__)

RENEWAL_INTERVAL_S = 60.0


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
        """Connects with the files as they are, if they changed; call it every RENEWAL_INTERVAL_S.

        Raises OSError and TemporalUnreachable, with the old client in place: the renewal is half
        written, or the frontend is away.
        """
        security = connection_security(self._settings)
        if security == self._security:
            return
        client = await connect_temporal(
            self._target, self._namespace, self._settings, attempts_max=1
        )
        self.client, self._security = client, security
        for use in self._followers:
            use(client)
        log.info("certificate %s was renewed", self._settings.certificate)
