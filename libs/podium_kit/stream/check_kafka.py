import asyncio
import threading

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from podium_kit.stream.rejections import BrokerUnavailable
from podium_kit.stream.settings import KafkaSettings

# Shorter than the monitor waits, so that the cause of a failure is found in time.
TIMEOUT_MS = 1_000


class BrokerCheck:
    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._admin: KafkaAdminClient | None = None
        # A thread outlives the check that gave up on it; the next must not meet it.
        self._asking = threading.Lock()

    async def check(self) -> None:
        """Raises BrokerUnavailable when no broker answers within seconds."""
        await asyncio.to_thread(self._ask)

    async def close(self) -> None:
        await asyncio.to_thread(self._drop)

    def _ask(self) -> None:
        with self._asking:
            try:
                self._admin = self._admin or self._connect()
                self._admin.describe_cluster()
            except (KafkaError, OSError) as error:
                self._drop()
                raise BrokerUnavailable(self._kafka, error) from error

    def _connect(self) -> KafkaAdminClient:
        return KafkaAdminClient(
            **self._kafka.arguments(),
            request_timeout_ms=TIMEOUT_MS,
            bootstrap_timeout_ms=TIMEOUT_MS,
        )

    def _drop(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()
