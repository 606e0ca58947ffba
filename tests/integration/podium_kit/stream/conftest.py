"""One broker behind a TLS terminator, for all tests of this folder."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from certificates import Authority
from episodes.publication.topic_kafka import create_topic
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.rpc.settings import TlsFiles
from podium_kit.stream import KafkaSettings
from tls_terminator import TlsTerminator

TOPIC = "trajectories"


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


@pytest_asyncio.fixture(scope="session")
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
