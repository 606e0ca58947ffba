"""Keyed, idempotent producing to Kafka (kafka-python with a native checksum).

A producer whose broker lost its state never recovers, so after any error it is
thrown away and a fresh one is made; the outbox still owes the records.
"""

import asyncio
import importlib.util
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from kafka import KafkaProducer
from kafka.errors import KafkaError

from podium_kit.stream.rejections import BrokerUnavailable
from podium_kit.stream.settings import KafkaSettings

log = logging.getLogger(__name__)

DELIVERY_TIMEOUT_MS = 10_000
REQUEST_TIMEOUT_MS = 3_000
MAX_BLOCK_MS = 5_000


@dataclass(frozen=True)
class StreamRecord:
    """One record as it goes to the topic."""

    key: str
    value: bytes
    headers: dict[str, str]


class Producer:
    """Sends batches and says where each record came to lie."""

    def __init__(self, kafka: KafkaSettings) -> None:
        # The pure-Python checksum costs seventeen times the CPU of the whole send.
        if importlib.util.find_spec("crc32c") is None:
            raise RuntimeError("kafka-python needs the crc32c package: pip install crc32c")
        self._kafka = kafka
        self._producer: KafkaProducer | None = None

    async def send(self, topic: str, records: Sequence[StreamRecord]) -> list[tuple[int, int]]:
        """Partition and offset of each record. Raises BrokerUnavailable."""
        try:
            return await asyncio.to_thread(self._send, topic, records)
        except (KafkaError, OSError) as error:
            await self.close()
            raise await asyncio.to_thread(BrokerUnavailable, self._kafka, error) from error

    async def close(self) -> None:
        """Drops the producer; the next send makes a fresh one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await asyncio.to_thread(producer.close, 1.0)

    def _send(self, topic: str, records: Sequence[StreamRecord]) -> list[tuple[int, int]]:
        if self._producer is None:
            self._producer = self._connect()
        futures = [
            self._producer.send(
                topic,
                key=record.key.encode(),
                value=record.value,
                headers=[(name, value.encode()) for name, value in record.headers.items()],
            )
            for record in records
        ]
        self._producer.flush(DELIVERY_TIMEOUT_MS / 1000)
        placed = [future.get(timeout=DELIVERY_TIMEOUT_MS / 1000) for future in futures]
        return [(metadata.partition, metadata.offset) for metadata in placed]

    def _connect(self) -> KafkaProducer:
        return KafkaProducer(
            **self._kafka.arguments(),
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            max_block_ms=MAX_BLOCK_MS,
            max_request_size=4 * 1024 * 1024,
            bootstrap_timeout_ms=MAX_BLOCK_MS,
        )
