import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from openai_server import OpenAiServer, Scripted
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.postgres_cluster import Cluster, binary
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_operations.local.platform import DATABASES, TOPIC_PARTITIONS

HOST_RULES = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
START_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Neighbours:
    database_urls: dict[str, str]
    temporal: str
    kafka: str
    model: OpenAiServer


@asynccontextmanager
async def neighbours(folder: Path, script: list[Scripted]) -> AsyncIterator[Neighbours]:
    kafka = EmbeddedKafka(free_port(), log_path=folder / "kafka.log")
    temporal = EmbeddedTemporal(folder / "temporal", free_port())
    with OpenAiServer(script=script, models=["scripted-model"]) as model:
        async with databases(folder) as urls:
            try:
                await asyncio.gather(kafka.start(), temporal.start())
                await kafka.create_topics(TOPIC_PARTITIONS)
                yield Neighbours(urls, temporal.target, kafka.bootstrap_servers, model)
            finally:
                await asyncio.gather(kafka.stop(), temporal.stop())


@asynccontextmanager
async def databases(folder: Path) -> AsyncIterator[dict[str, str]]:
    """A PostgreSQL server on TCP that asks for passwords; the databases' URLs."""
    port, password = free_port(), secrets.token_urlsafe(16)
    with tempfile.TemporaryDirectory(prefix="pg-") as sockets:
        cluster = Cluster(folder / "postgres")
        cluster.create()
        cluster.own(Path(sockets))
        rules = cluster.data_dir / "pg_hba.conf"
        rules.write_text(HOST_RULES)
        server = ManagedProcess(
            "postgres",
            [binary("postgres"), "-D", cluster.data_dir, "-k", sockets, "-p", str(port)],
            log_path=folder / "postgres.log",
            user=cluster.account,
            cwd=Path("/"),
        )
        try:
            server.start()
            await server.wait_ready(lambda: _answers(sockets, port), START_TIMEOUT_S)
            yield await _create(sockets, port, password)
        finally:
            await server.terminate()


async def _answers(sockets: str, port: int) -> bool:
    try:
        await (await _connect(sockets, port)).close()
    except (OSError, asyncpg.PostgresError):
        return False
    return True


async def _connect(sockets: str, port: int) -> asyncpg.Connection:
    return await asyncpg.connect(host=sockets, port=port, user="postgres", database="postgres")


async def _create(sockets: str, port: int, password: str) -> dict[str, str]:
    """One database and its owner per service; the ledger serves as another role."""
    connection = await _connect(sockets, port)
    urls = {}
    try:
        for name in DATABASES:
            await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
            await connection.execute(f"CREATE DATABASE {name} OWNER {name}")
            urls[name.replace("_", "-")] = _url(name, name, password, port)
        await connection.execute(f"CREATE ROLE cost_ledger_service LOGIN PASSWORD '{password}'")
    finally:
        await connection.close()
    urls["cost-ledger-owner"] = urls["cost-ledger"]
    urls["cost-ledger"] = _url("cost_ledger_service", "cost_ledger", password, port)
    return urls


def _url(role: str, database: str, password: str, port: int) -> str:
    return f"postgresql+asyncpg://{role}:{password}@127.0.0.1:{port}/{database}"
