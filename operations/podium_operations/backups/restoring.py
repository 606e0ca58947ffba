from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from episodes.publication.reconciler import WINDOW_S
from episodes.publication.store_outbox import OutboxStore
from podium_kit.client.errors import UserError
from podium_operations.backups.databases import (
    count_other_sessions,
    count_tables,
    engine_of,
    newer_than_this_build,
    require_same_ledger,
)
from podium_operations.backups.manifest import BackupUnusable, DatabaseFacts, Manifest, dump_path
from podium_operations.backups.programs import restore

UNFINISHED = text("""
    SELECT count(*) FILTER (WHERE EXISTS (SELECT FROM steps s WHERE s.episode_id = e.id)) AS begun,
           count(*) AS unfinished
    FROM episodes e WHERE stop_reason IS NULL
""")
UNCONFIRMED = text("""
    SELECT count(*) FROM outbox WHERE confirm_time IS NULL AND dead_letter_reason IS NULL
""")
ROLE_EXISTS = text("SELECT 1 FROM pg_roles WHERE rolname = :name")
EMPTIED = (
    "DROP SCHEMA public CASCADE",
    "CREATE SCHEMA public AUTHORIZATION pg_database_owner",
    "GRANT USAGE ON SCHEMA public TO PUBLIC",
)


class TargetNotEmpty(UserError):
    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not empty", "give --replace, after a backup of what is there")


class TargetInUse(UserError):
    def __init__(self, name: str, count: int) -> None:
        super().__init__(
            f"{count} sessions are connected to the database {name}",
            "stop the services first: kubectl scale deployment --all --replicas=0",
        )


class TargetRejects(UserError):
    def __init__(self, name: str, error: DBAPIError) -> None:
        super().__init__(
            f"the database {name} rejects its preparation: {error.orig}",
            "restore as the owner of the database; let an administrator make its roles and "
            "extensions (k8s/README.md), or give new, empty databases",
        )


@dataclass(frozen=True)
class Restored:
    """The state that the services find, and repair after their start."""

    unfinished_episodes: int
    begun_episodes: int
    records_to_check: int


async def restore_databases(
    folder: Path, manifest: Manifest, urls: Mapping[str, str], replace: bool
) -> Restored:
    """Checks every target before the first is changed.

    Raises BackupUnusable, TargetInUse, TargetNotEmpty, TargetRejects, ProgramFailed, LedgerDiffers.
    """
    if newer := newer_than_this_build(manifest.databases):
        problem = f"version {manifest.podium_version} made it, whose {newer[0]} has a newer schema"
        raise BackupUnusable(folder, problem, "restore with that version of podium")
    async with AsyncExitStack() as stack:
        engines = {
            name: await stack.enter_async_context(engine_of(urls[name]))
            for name in manifest.databases
        }
        for name, engine in engines.items():
            await _require_free(name, engine, replace)
        for name, engine in engines.items():
            await _prepare(name, engine, manifest.databases[name])
            await restore(name, urls[name], folder / dump_path(name))
        await require_same_ledger(engines["cost_ledger"], manifest.ledger)
        return await _reconcile(engines["episodes"], manifest.point_time)


async def _require_free(name: str, engine: AsyncEngine, replace: bool) -> None:
    async with engine.connect() as connection:
        if sessions := await count_other_sessions(connection):
            raise TargetInUse(name, sessions)
        if await count_tables(connection) and not replace:
            raise TargetNotEmpty(f"the database {name}")


async def _prepare(name: str, engine: AsyncEngine, facts: DatabaseFacts) -> None:
    """An empty schema, and the roles and extensions that the dump takes for granted."""
    try:
        async with engine.begin() as connection:
            if await count_tables(connection):
                for statement in EMPTIED:
                    await connection.execute(text(statement))
            quoted = connection.dialect.identifier_preparer.quote_identifier
            for extension in facts.extensions:
                await connection.execute(
                    text(f"CREATE EXTENSION IF NOT EXISTS {quoted(extension)} SCHEMA public")
                )
            for role in facts.roles:
                await _ensure_role(connection, role.strip('"'))
    except DBAPIError as error:
        raise TargetRejects(name, error) from error


async def _ensure_role(connection: AsyncConnection, role: str) -> None:
    if not (await connection.execute(ROLE_EXISTS, {"name": role})).scalar():
        quoted = connection.dialect.identifier_preparer.quote_identifier(role)
        await connection.execute(text(f"CREATE ROLE {quoted} LOGIN"))


async def _reconcile(episodes: AsyncEngine, point_time: datetime) -> Restored:
    """Makes the stream's reconciler look again; the rest the services do by themselves."""
    age_s = (datetime.now(UTC) - point_time).total_seconds()
    await OutboxStore(episodes).unconfirm(WINDOW_S + age_s)
    async with episodes.connect() as connection:
        counted = (await connection.execute(UNFINISHED)).one()
        unconfirmed = (await connection.execute(UNCONFIRMED)).scalar_one()
    return Restored(counted.unfinished, counted.begun, unconfirmed)
