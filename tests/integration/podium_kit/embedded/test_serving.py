import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
from kafka.admin import KafkaAdminClient
from temporalio.client import Client

from podium_kit.embedded.ports import accepts_connections, free_port
from podium_kit.embedded.serving import SERVERS

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
