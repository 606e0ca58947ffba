"""Keyed, idempotent producing to Kafka (kafka-python with a native checksum).

A producer whose broker lost its state never recovers, so after any error it is
thrown away and a fresh one is made; the outbox still owes the records.
"""

import asyncio
import importlib.util
import logging
from collections.abc import Sequence
from typing import Any, cast

from kafka import KafkaProducer
from kafka.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
)

from podium_kit.stream.records import Outcome, Place, Rejection, StreamRecord
from podium_kit.stream.rejections import BrokerUnavailable
from podium_kit.stream.settings import KafkaSettings

log = logging.getLogger(__name__)

DELIVERY_TIMEOUT_MS = 10_000
REQUEST_TIMEOUT_MS = 3_000
MAX_BLOCK_MS = 5_000


# What is wrong with a record, not with the broker: trying it again changes nothing.
OF_THE_RECORD = (
    InvalidRecordError,
    InvalidTimestampError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
)


class Producer:
    def __init__(self, kafka: KafkaSettings) -> None:
        # The pure-Python checksum costs seventeen times the CPU of the whole send.
        if importlib.util.find_spec("crc32c") is None:
            raise RuntimeError("kafka-python needs the crc32c package: pip install crc32c")
        self._kafka = kafka
        self._producer: KafkaProducer | None = None

    async def send(self, topic: str, records: Sequence[StreamRecord]) -> list[Outcome]:
        """Sends records and returns the outcome of each. Raises BrokerUnavailable.

        The broker takes or rejects batches. So once one is rejected, each record that has no place
        yet is sent alone.
        """
        outcomes = await self._attempt(topic, records)
        if len(records) > 1 and any(isinstance(each, Rejection) for each in outcomes):
            for number, outcome in enumerate(outcomes):
                if not isinstance(outcome, Place):
                    outcomes[number] = (await self._attempt(topic, [records[number]]))[0]
        return [await self._decided(outcome) for outcome in outcomes]

    async def _attempt(
        self, topic: str, records: Sequence[StreamRecord]
    ) -> list[Outcome | Exception]:
        try:
            outcomes = await asyncio.to_thread(self._send, topic, records)
        except (KafkaError, OSError) as error:
            await self.close()
            raise await asyncio.to_thread(BrokerUnavailable, self._kafka, error) from error
        if not all(isinstance(each, Place) for each in outcomes):
            await self.close()
        return outcomes

    async def _decided(self, outcome: Outcome | Exception) -> Outcome:
        if isinstance(outcome, Exception):
            raise await asyncio.to_thread(BrokerUnavailable, self._kafka, outcome) from outcome
        return outcome

    async def close(self) -> None:
        """Drops the producer; the next send makes a fresh one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await asyncio.to_thread(producer.close, 1.0)

    def _send(self, topic: str, records: Sequence[StreamRecord]) -> list[Outcome | Exception]:
        if self._producer is None:
            self._producer = self._connect()
        started = [_started(self._producer, topic, record) for record in records]
        self._producer.flush(DELIVERY_TIMEOUT_MS / 1000)
        return [_outcome(each) for each in started]

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


def _started(producer: KafkaProducer, topic: str, record: StreamRecord) -> Any:
    """The future of a record on its way; a Rejection when the client itself will not send it."""
    headers = [(name, value.encode()) for name, value in record.headers.items()]
    try:
        return producer.send(topic, key=record.key.encode(), value=record.value, headers=headers)
    except OF_THE_RECORD as error:
        return Rejection(_words(error))


def _outcome(started: Any) -> Outcome | Exception:
    if isinstance(started, Rejection):
        return started
    try:
        metadata = started.get(timeout=DELIVERY_TIMEOUT_MS / 1000)
    except OF_THE_RECORD as error:
        return Rejection(_words(error))
    except KafkaError as error:
        return cast("Exception", error)
    return Place(metadata.partition, metadata.offset)


def _words(error: Exception) -> str:
    return f"the broker rejects it: {type(error).__name__.removesuffix('Error')}: {error}"[:500]
