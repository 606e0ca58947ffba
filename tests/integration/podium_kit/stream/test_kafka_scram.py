import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from certificates import Authority
from episodes.publication.topic_kafka import TopicReader, create_topic
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.stream import BrokerUnavailable, KafkaSettings, Place, StreamRecord
from podium_kit.stream.clients import BrokerCheck, Producer
from scram_gate import ScramGate
from tls_terminator import TlsTerminator

TOPIC, USER, PASSWORD = "trajectories", "podium-episode-worker", "correct horse"
RECORD = StreamRecord("group", b"body", {"record-id": "one", "digest": "d"})


@dataclass(frozen=True)
class Broker:
    authority: Path
    gate: ScramGate
    port: int
    folder: Path

    def settings(self, password: str = PASSWORD, user: str = USER) -> KafkaSettings:
        file = self.folder / "password"
        file.write_text(password)
        return KafkaSettings(
            bootstrap=f"127.0.0.1:{self.port}",
            security_protocol="SASL_SSL",
            authority=self.authority,
            username=user,
            password_file=file,
        )


@pytest_asyncio.fixture(scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    folder = tmp_path_factory.mktemp("broker")
    files = Authority(folder, "ours").issue("broker", ("127.0.0.1",))
    behind = free_port()
    async with ScramGate(USER, PASSWORD, behind).listening() as gate:
        terminator = TlsTerminator(files, gate.port, certificates_asked=False)
        async with terminator.listening():
            kafka = EmbeddedKafka(
                behind, log_path=folder / "kafka.log", advertised=f"127.0.0.1:{terminator.port}"
            )
            await kafka.start()
            known = Broker(files.authority, gate, terminator.port, folder)
            await asyncio.to_thread(create_topic, known.settings(), TOPIC, 1)
            yield known
            await kafka.stop()


async def test_producer_consumer_and_check_prove_their_password(broker: Broker) -> None:
    settings, before = broker.settings(), broker.gate.admitted
    producer, reader, check = (
        Producer(settings),
        TopicReader(settings, TOPIC),
        BrokerCheck(settings),
    )
    await check.check()
    (place,) = await producer.send(TOPIC, [RECORD])
    assert isinstance(place, Place)
    ends = await asyncio.to_thread(reader.end_offsets)
    assert await asyncio.to_thread(reader.digests, {place.partition: place.offset}, ends) == {
        "one": "d"
    }
    assert broker.gate.admitted >= before + 3
    await producer.close()
    await check.close()


@pytest.mark.parametrize("mistake", [{"password": "wrong"}, {"user": "somebody"}])
async def test_a_wrong_user_or_password_fails(broker: Broker, mistake: dict[str, str]) -> None:
    admitted, rejected = broker.gate.admitted, broker.gate.rejected
    with pytest.raises(BrokerUnavailable):
        await BrokerCheck(broker.settings(**mistake)).check()
    assert broker.gate.admitted == admitted
    assert broker.gate.rejected > rejected
