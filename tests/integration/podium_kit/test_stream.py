"""Handshakes with a broker over TLS: certificates, passwords, and what a wrong one says."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from certificates import Authority
from episodes.publication.topic_kafka import TopicReader
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.rpc.settings import TlsFiles
from podium_kit.stream import BrokerUnavailable, KafkaSettings, Place, Rejection, StreamRecord
from podium_kit.stream.clients import BrokerCheck, Producer
from servers.scram_gate import ScramGate
from servers.tls_terminator import TlsTerminator

TOPIC = "trajectories"


def create_topic(kafka: KafkaSettings, topic: str, partitions: int) -> None:
    admin = KafkaAdminClient(**kafka.arguments())
    admin.create_topics([NewTopic(topic, partitions, 1)])
    admin.close()


@dataclass(frozen=True)
class SecuredBroker:
    authority: Authority
    terminator: TlsTerminator

    def settings(self, client: TlsFiles, host: str = "127.0.0.1") -> KafkaSettings:
        return KafkaSettings(
            bootstrap=f"{host}:{self.terminator.port}",
            security_protocol="SSL",
            **client.model_dump(),
        )


@pytest_asyncio.fixture(scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SecuredBroker]:
    folder = tmp_path_factory.mktemp("broker")
    authority = Authority(folder, "ours")
    # Known by its address alone, so that "localhost" is a wrong name.
    terminator = TlsTerminator(authority.issue("broker", ("127.0.0.1",)), free_port())
    async with terminator.listening():
        kafka = EmbeddedKafka(
            terminator.upstream_port,
            log_path=folder / "kafka.log",
            advertised=f"127.0.0.1:{terminator.port}",
        )
        await kafka.start()
        secured = SecuredBroker(authority, terminator)
        administrator = secured.settings(authority.issue("administrator"))
        await asyncio.to_thread(create_topic, administrator, TOPIC, 3)
        yield secured
        await kafka.stop()


RECORD = StreamRecord("group", b"body", {"record-id": "one", "digest": "d"})


async def test_producer_consumer_and_check_speak_mutual_tls(broker: SecuredBroker) -> None:
    settings = broker.settings(broker.authority.issue("worker"))
    producer, reader, check = (
        Producer(settings),
        TopicReader(settings, TOPIC),
        BrokerCheck(settings),
    )
    await check.check()
    (place,) = await producer.send(TOPIC, [RECORD])
    assert isinstance(place, Place)
    ends = await asyncio.to_thread(reader.end_offsets)
    found = await asyncio.to_thread(reader.digests, {place.partition: place.offset}, ends)
    assert found == {"one": "d"}
    assert "worker" in broker.terminator.seen
    await producer.close()
    await check.close()


async def test_the_next_connection_shows_the_renewed_certificate(broker: SecuredBroker) -> None:
    """Strimzi renews a user's certificate in its Secret; no one restarts."""
    files, renewed = (broker.authority.issue(name) for name in ("before", "after"))
    producer = Producer(broker.settings(files))
    await producer.send(TOPIC, [RECORD])
    renewed.certificate.replace(files.certificate)
    renewed.private_key.replace(files.private_key)
    broker.terminator.drop_connections()
    await producer.send(TOPIC, [RECORD])
    assert broker.terminator.seen[-1] == "after"
    await producer.close()


def wrong_authority(broker: SecuredBroker, folder: Path) -> KafkaSettings:
    files = broker.authority.issue("client")
    theirs = Authority(folder, "theirs").issue("client")
    return broker.settings(files.model_copy(update={"authority": theirs.authority}))


def stranger(broker: SecuredBroker, folder: Path) -> KafkaSettings:
    files, ours = Authority(folder, "theirs").issue("client"), broker.authority.issue("client")
    return broker.settings(files.model_copy(update={"authority": ours.authority}))


def expired(broker: SecuredBroker, _: Path) -> KafkaSettings:
    return broker.settings(broker.authority.issue("late", lasting=timedelta(hours=-1)))


def wrong_host(broker: SecuredBroker, _: Path) -> KafkaSettings:
    return broker.settings(broker.authority.issue("client"), host="localhost")


def no_certificate(broker: SecuredBroker, _: Path) -> KafkaSettings:
    good = broker.settings(broker.authority.issue("client"))
    return good.model_copy(update={"certificate": None, "private_key": None})


def mixed_pair(broker: SecuredBroker, _: Path) -> KafkaSettings:
    one, other = broker.authority.issue("one"), broker.authority.issue("other")
    files = TlsFiles(
        certificate=one.certificate, private_key=other.private_key, authority=one.authority
    )
    return broker.settings(files)


def nobody_there(broker: SecuredBroker, _: Path) -> KafkaSettings:
    good = broker.settings(broker.authority.issue("client"))
    return good.model_copy(update={"bootstrap": f"127.0.0.1:{free_port()}"})


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (wrong_authority, "self-signed certificate in certificate chain. Fix authority"),
        (wrong_host, "certificate is not valid for 'localhost'. Fix authority or host"),
        (no_certificate, "do not accept a client without one. Fix certificate"),
        (stranger, "theirs-client.crt. Fix certificate"),
        (expired, "ours-late.crt. Fix certificate"),
        (mixed_pair, "KEY_VALUES_MISMATCH. Fix certificate and private_key"),
        (nobody_there, "Connection refused. Fix bootstrap"),
    ],
)
async def test_a_handshake_that_fails_says_what_to_fix(
    broker: SecuredBroker,
    tmp_path: Path,
    mistake: Callable[[SecuredBroker, Path], KafkaSettings],
    said: str,
) -> None:
    settings = mistake(broker, tmp_path)
    with pytest.raises(BrokerUnavailable) as rejected:
        await BrokerCheck(settings).check()
    assert said in rejected.value.message
    assert settings.bootstrap in rejected.value.message


async def test_a_producer_says_it_too_and_its_records_stay_owed(broker: SecuredBroker) -> None:
    producer = Producer(no_certificate(broker, Path()))
    with pytest.raises(BrokerUnavailable, match="do not accept a client without one"):
        await producer.send(TOPIC, [RECORD])
    await producer.close()


TOO_LARGE = 5 * 1024 * 1024


def record(key: str, size: int) -> StreamRecord:
    return StreamRecord(key, b"x" * size, {})


async def test_one_among_many_is_rejected_alone(kafka: EmbeddedKafka) -> None:
    topic = f"rejected-{uuid.uuid4().hex[:8]}"
    await kafka.create_topics({topic: 2})
    producer = Producer(KafkaSettings(bootstrap=kafka.bootstrap_servers))
    try:
        outcomes = await producer.send(
            topic, [record("a", 10), record("b", TOO_LARGE), record("c", 10)]
        )
        again = await producer.send(topic, [record("d", 10)])
    finally:
        await producer.close()
    assert [type(each) for each in outcomes] == [Place, Rejection, Place]
    assert isinstance(outcomes[1], Rejection)
    assert "MessageSizeTooLarge" in outcomes[1].reason
    assert [type(each) for each in again] == [Place]


USER, PASSWORD = "podium-episode-worker", "correct horse"


@dataclass(frozen=True)
class PasswordBroker:
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
async def password_broker(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[PasswordBroker]:
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
            known = PasswordBroker(files.authority, gate, terminator.port, folder)
            await asyncio.to_thread(create_topic, known.settings(), TOPIC, 1)
            yield known
            await kafka.stop()


async def test_producer_consumer_and_check_prove_their_password(
    password_broker: PasswordBroker,
) -> None:
    settings, before = password_broker.settings(), password_broker.gate.admitted
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
    assert password_broker.gate.admitted >= before + 3
    await producer.close()
    await check.close()


@pytest.mark.parametrize("mistake", [{"password": "wrong"}, {"user": "somebody"}])
async def test_a_wrong_user_or_password_fails(
    password_broker: PasswordBroker, mistake: dict[str, str]
) -> None:
    admitted, rejected = password_broker.gate.admitted, password_broker.gate.rejected
    with pytest.raises(BrokerUnavailable):
        await BrokerCheck(password_broker.settings(**mistake)).check()
    assert password_broker.gate.admitted == admitted
    assert password_broker.gate.rejected > rejected
