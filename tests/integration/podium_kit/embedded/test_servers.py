"""Servers from wheels, as embedded and as containers' own processes."""

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import crc32c
import psutil
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from temporalio.client import Client

from embedded_servers import Database
from podium_kit.embedded.errors import PortTaken, StartupFailed
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import accepts_connections, free_port
from podium_kit.embedded.postgres import EmbeddedPostgres, InvalidDatabaseName
from podium_kit.embedded.serving import SERVERS
from podium_kit.embedded.temporal import EmbeddedTemporal
from process_owner import runs


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(tmp_path / "postgres")
    await server.start()
    yield server
    await server.kill()


async def execute(url: str, statement: str) -> None:
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.execute(text(statement))
    await engine.dispose()


async def query(url: str, statement: str) -> object:
    engine = create_async_engine(url)
    async with engine.connect() as connection:
        value = (await connection.execute(text(statement))).scalar()
    await engine.dispose()
    return value


async def database_with_a_row(server: EmbeddedPostgres) -> str:
    url = await server.create_database("notes")
    await execute(url, "CREATE TABLE note AS SELECT 'kept' AS body")
    return url


async def test_rows_survive_a_restart(server: EmbeddedPostgres) -> None:
    url = await database_with_a_row(server)
    await server.restart()
    assert await query(url, "SELECT body FROM note") == "kept"


async def test_rows_survive_kill_9_of_the_whole_server(server: EmbeddedPostgres) -> None:
    url = await database_with_a_row(server)
    await server.kill()
    await server.start()
    assert await query(url, "SELECT body FROM note") == "kept"


async def test_rows_survive_kill_9_of_the_postmaster_alone(server: EmbeddedPostgres) -> None:
    url = await database_with_a_row(server)
    assert server.process.pid is not None
    os.kill(server.process.pid, signal.SIGKILL)
    await server.start()
    assert await query(url, "SELECT body FROM note") == "kept"


async def test_creating_a_database_twice_keeps_it(server: EmbeddedPostgres) -> None:
    url = await database_with_a_row(server)
    assert await server.create_database("notes") == url
    assert await query(url, "SELECT body FROM note") == "kept"


async def test_a_database_name_with_a_quote_is_rejected(server: EmbeddedPostgres) -> None:
    with pytest.raises(InvalidDatabaseName, match="lower-case letters"):
        await server.create_database('notes"; DROP DATABASE notes; --')


async def test_commits_are_durable(server: EmbeddedPostgres) -> None:
    url = server.dsn("postgres")
    assert await query(url, "SHOW fsync") == "on"
    assert await query(url, "SHOW synchronous_commit") == "on"


async def test_vectors_can_be_compared(server: EmbeddedPostgres) -> None:
    url = await server.create_database("vectors")
    await execute(url, "CREATE EXTENSION vector")
    assert await query(url, "SELECT '[0,3]'::vector <-> '[4,0]'::vector") == 5.0


async def test_a_state_folder_longer_than_a_socket_path_works(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / ("long" * 30) / "postgres")
    await server.start()
    assert await query(server.dsn("postgres"), "SELECT 1") == 1
    await server.stop()


@pytest.mark.parametrize("mode", [0o700, 0o701])
async def test_it_passes_folders_that_others_may_not_read(tmp_path: Path, mode: int) -> None:
    # What everybody may does not hold for a member of the folder's group.
    (tmp_path / "private").mkdir()
    server = EmbeddedPostgres(tmp_path / "private" / "data")
    await server.start()
    await server.stop()
    (tmp_path / "private").chmod(mode)
    again = EmbeddedPostgres(tmp_path / "private" / "data")
    await again.start()
    assert await again.create_database("reached")
    await again.stop()


async def test_folders_on_its_way_stay_closed_to_everybody(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    server = EmbeddedPostgres(private / "state" / "data")
    await server.start()
    assert await server.create_database("reached")
    await server.stop()
    for folder in (private, private / "state" / "data"):
        assert not folder.stat().st_mode & (stat.S_IRWXO | stat.S_IRGRP | stat.S_IWGRP), folder


async def test_a_second_server_on_the_same_folder_is_rejected(
    server: EmbeddedPostgres, tmp_path: Path
) -> None:
    with pytest.raises(StartupFailed, match=f"process {server.process.pid} already serves"):
        await EmbeddedPostgres(tmp_path / "postgres").start()
    assert await server.answers()


async def test_nothing_is_left_running_after_stop(server: EmbeddedPostgres) -> None:
    family = psutil.Process(server.process.pid).children(recursive=True)
    await server.stop()
    assert family
    assert not [process for process in family if runs(process)]
    assert not await server.answers()


async def test_the_database_fixture_gives_separate_databases(
    database: Database,
) -> None:
    first, second = await database(), await database()
    await execute(first, "CREATE TABLE note (body text)")
    assert await query(second, "SELECT to_regclass('note')") is None


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[EmbeddedKafka]:
    broker = EmbeddedKafka(free_port(), log_path=tmp_path / "kafka.log")
    await broker.start()
    yield broker
    await broker.stop()


def produce(broker: EmbeddedKafka, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, acks="all", enable_idempotence=True
    )
    for value in values:
        producer.send(topic, value, partition=partition).get(timeout=10)
    producer.close()


def consume(broker: EmbeddedKafka, topic: str, count: int, partition: int = 0) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    assignment = TopicPartition(topic, partition)
    consumer.assign([assignment])
    consumer.seek_to_beginning(assignment)
    values: list[bytes] = []
    while len(values) < count:
        for records in consumer.poll(timeout_ms=500).values():
            values += [record.value for record in records]
    consumer.close()
    return values


async def test_records_come_back_in_order_with_their_checksums(broker: EmbeddedKafka) -> None:
    await broker.create_topics({"trajectories": 1})
    values = [f"turn {number}".encode() * 1000 for number in range(20)]
    produce(broker, "trajectories", values)
    received = consume(broker, "trajectories", len(values))
    assert [crc32c.crc32c(value) for value in received] == [crc32c.crc32c(v) for v in values]


async def test_a_topic_has_the_wanted_number_of_partitions(broker: EmbeddedKafka) -> None:
    await broker.create_topics({"trajectories": 3})
    produce(broker, "trajectories", [b"last"], partition=2)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    assert consumer.partitions_for_topic("trajectories") == {0, 1, 2}
    consumer.close()


async def test_creating_a_topic_twice_keeps_its_records(broker: EmbeddedKafka) -> None:
    await broker.create_topics({"trajectories": 1})
    produce(broker, "trajectories", [b"kept"])
    await broker.create_topics({"trajectories": 1})
    assert consume(broker, "trajectories", 1) == [b"kept"]


@pytest.fixture
async def temporal(tmp_path: Path) -> AsyncIterator[EmbeddedTemporal]:
    server = EmbeddedTemporal(tmp_path, free_port(), search_attributes={"Tenant": "Keyword"})
    await server.start()
    yield server
    await server.kill()


async def start_workflow(temporal: EmbeddedTemporal) -> None:
    client = await Client.connect(temporal.target)
    await client.start_workflow("Waiting", "a question", id="episode-1", task_queue="nobody")


async def test_a_workflow_survives_kill_9_of_the_server(temporal: EmbeddedTemporal) -> None:
    await start_workflow(temporal)
    await temporal.kill()
    await temporal.start()
    client = await Client.connect(temporal.target)
    history = await client.get_workflow_handle("episode-1").fetch_history()
    started = history.events[0].workflow_execution_started_event_attributes
    assert started.input.payloads[0].data == b'"a question"'


async def test_a_workflow_survives_a_restart_on_another_port(
    temporal: EmbeddedTemporal, tmp_path: Path
) -> None:
    await start_workflow(temporal)
    await temporal.stop()
    successor = EmbeddedTemporal(tmp_path, free_port())
    await successor.start()
    client = await Client.connect(successor.target)
    description = await client.get_workflow_handle("episode-1").describe()
    assert description.workflow_type == "Waiting"
    await successor.stop()


async def test_the_database_runs_in_write_ahead_mode(
    temporal: EmbeddedTemporal, tmp_path: Path
) -> None:
    assert await temporal.answers()
    assert (tmp_path / "temporal.db-wal").exists()


async def test_a_taken_port_is_rejected_with_the_name_of_its_holder(
    temporal: EmbeddedTemporal, tmp_path: Path
) -> None:
    second = EmbeddedTemporal(tmp_path / "second", temporal.port)
    with pytest.raises(PortTaken, match=rf"temporal \(process {temporal.process.pid}\)"):
        await second.start()
    assert not (tmp_path / "second" / "temporal.db").exists()


READY_WITHIN_S = 60
# PostgreSQL rejects root, which a container's user is not.
USER = "nobody" if os.geteuid() == 0 else None
Serve = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own folder, which is closed to other accounts.
    made = Path(tempfile.mkdtemp(prefix="podium-serving-"))
    if USER:
        shutil.chown(made, USER)
        made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, port: int, *arguments: str | Path) -> "subprocess.Popen[bytes]":
        # What the container's process becomes.
        command = SERVERS[name](str(port), *map(str, arguments))
        server = subprocess.Popen(command, user=USER if name == "postgres" else None, cwd="/")
        started.append(server)
        deadline = time.monotonic() + READY_WITHIN_S
        while not accepts_connections(port):
            assert server.poll() is None, f"{name} ended with {server.returncode}"
            assert time.monotonic() < deadline, f"{name} does not listen"
            time.sleep(0.1)
        return server

    yield start
    for server in started:
        server.kill()
        server.wait()


async def connected(port: int, password: str) -> asyncpg.Connection:
    """Once it has started: it listens earlier."""
    deadline = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            return await asyncpg.connect(
                host="127.0.0.1", port=port, user="postgres", password=password, database="postgres"
            )
        except asyncpg.CannotConnectNowError:
            assert time.monotonic() < deadline


async def started(port: int) -> Client:
    """Once Temporal is healthy: it listens earlier."""
    deadline = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            return await Client.connect(f"127.0.0.1:{port}")
        except RuntimeError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


async def test_postgres_asks_who_comes_over_tcp_for_the_password_and_keeps_rows(
    folder: Path, serve: Serve
) -> None:
    password_file, port = folder / "password", free_port()
    password_file.write_text("correct horse")
    password_file.chmod(0o644)
    server = serve("postgres", port, folder, password_file)
    connection = await connected(port, "correct horse")
    await connection.execute("CREATE TABLE kept AS SELECT 42 AS number")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await connected(port, "wrong")
    await connection.close()
    server.send_signal(signal.SIGINT)
    assert server.wait(READY_WITHIN_S) == 0
    # As a claim may come back: the group may write, which PostgreSQL rejects.
    (folder / "postgres").chmod(0o770)
    again = free_port()
    serve("postgres", again, folder, password_file)
    connection = await connected(again, "correct horse")
    assert await connection.fetchval("SELECT number FROM kept") == 42
    await connection.close()


async def test_temporal_listens_for_other_pods(folder: Path, serve: Serve) -> None:
    port = free_port()
    serve("temporal", port, folder)
    client = await started(port)
    assert (await client.count_workflows()).count == 0


def test_kafka_sends_clients_to_the_address_that_it_is_given(serve: Serve) -> None:
    port = free_port()
    serve("kafka", port, f"localhost:{port}")
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
    try:
        assert [broker["host"] for broker in admin.describe_cluster()["brokers"]] == ["localhost"]
    finally:
        admin.close()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "temporal").write_text("not a folder")
    command = [sys.executable, "-m", "podium_kit.embedded.serving", "temporal", "7233"]
    ended = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert f"temporal cannot start: [Errno 17] File exists: '{tmp_path}/temporal'" in ended.stderr
