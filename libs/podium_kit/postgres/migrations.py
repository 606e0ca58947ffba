"""Alembic migrations of a service, run before it serves.

Revisions are numbers of four digits, so that they sort by age.
"""

import hashlib
import logging
from pathlib import Path
from typing import Any

from asyncpg import PostgresError
from sqlalchemy import Connection, MetaData, make_url, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from podium_kit.postgres.urls import driver_url
from podium_kit.rpc.errors import FailedPrecondition, Unavailable

log = logging.getLogger(__name__)

# Any constant will do: it keeps two starting replicas from migrating at once.
MIGRATION_LOCK = 7_263_001


class DatabaseUnreachable(Unavailable):
    def __init__(self, database_url: str, cause: Exception) -> None:
        where = make_url(database_url).render_as_string(hide_password=True)
        super().__init__(
            f"the database {where} cannot be used: {cause or type(cause).__name__}; "
            "start it, or correct the service's DATABASE_URL"
        )


# The scripts that made the first schema; before the first release they change without a revision.
ORIGIN = "schema_origin"


class OtherSchema(FailedPrecondition):
    """The database was made by another build from before the first release."""

    def __init__(self) -> None:
        super().__init__(
            "the database was made by an earlier build of this unreleased version, whose tables "
            "differ; remove the state folder (podium down, then rm -r ~/.local/state/podium), or "
            "start with another --state-dir or an empty database"
        )


class UnknownRevision(FailedPrecondition):
    """The database was migrated by a build from before the first release."""

    def __init__(self, revision: str) -> None:
        super().__init__(
            f"the database has schema revision {revision}, which this version of Podium cannot "
            "upgrade; start with an empty database, or with another --state-dir"
        )


async def upgrade(database_url: str, script_location: Path) -> None:
    """Brings the database to the newest revision. `script_location` holds env.py.

    Raises DatabaseUnreachable, UnknownRevision, OtherSchema.
    """
    engine = create_async_engine(driver_url(database_url))
    try:
        await _require_answer(engine, database_url)
        async with engine.begin() as connection:
            await connection.execute(
                text("SELECT pg_advisory_xact_lock(:k)"), {"k": MIGRATION_LOCK}
            )
            await connection.run_sync(_upgrade, script_location)
    finally:
        await engine.dispose()


async def _require_answer(engine: AsyncEngine, database_url: str) -> None:
    try:
        await (await engine.connect()).close()
    except (OSError, PostgresError, SQLAlchemyError) as error:
        raise DatabaseUnreachable(database_url, error) from error


def _upgrade(connection: Connection, script_location: Path) -> None:
    known = _revisions(script_location)
    revision = _revision(connection)
    if revision == known[-1]:
        _require_same_origin(connection, script_location)
        return
    if revision > known[-1]:
        # After a rollback of the release: migrations only add, so the older code still works.
        log.warning("the database has revision %s, newer than this build's %s", revision, known[-1])
        return
    if revision and revision not in known:
        raise UnknownRevision(revision)
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(script_location))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _require_same_origin(connection: Connection, script_location: Path) -> None:
    digest = None
    if connection.scalar(text(f"SELECT to_regclass('{ORIGIN}')")) is not None:
        digest = connection.scalar(text(f"SELECT digest FROM {ORIGIN}"))  # noqa: S608 a constant
    if digest != _origin(script_location):
        raise OtherSchema


def _origin(script_location: Path) -> str:
    scripts = sorted((script_location / "schema").glob("*.sql"))
    return hashlib.sha256(b"\0".join(each.read_bytes() for each in scripts)).hexdigest()


def newest_revision(script_location: Path) -> str:
    return _revisions(script_location)[-1]


def _revisions(script_location: Path) -> list[str]:
    """The revisions in their order: each is a file of the folder, and its name begins with it."""
    return sorted(each.name[:4] for each in (script_location / "versions").glob("*.py"))


def _revision(connection: Connection) -> str:
    if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return ""
    return connection.scalar(text("SELECT version_num FROM alembic_version")) or ""


def run_schema(revision_file: str, *names: str) -> None:
    """Runs SQL scripts of `migrations/schema`, in order, inside the revision's transaction.

    A script holds many statements, which a prepared statement cannot; the driver's own
    `execute` sends it as it is.
    """
    from alembic import op  # only usable inside a revision

    folder = Path(revision_file).parents[1] / "schema"
    driver: Any = op.get_bind().connection.dbapi_connection
    for name in names:
        script = (folder / name).read_text(encoding="utf-8")
        driver.run_async(lambda connection, script=script: connection.execute(script))
    op.execute(f"CREATE TABLE {ORIGIN} (digest text NOT NULL)")
    op.execute(f"INSERT INTO {ORIGIN} VALUES ('{_origin(folder.parent)}')")  # noqa: S608 a digest


def run_migrations_in_env(target_metadata: MetaData | None = None) -> None:
    """The whole of a service's `migrations/env.py`: runs on the given connection."""
    from alembic import context  # only importable inside Alembic's env.py

    connection = context.config.attributes["connection"]
    context.configure(connection=connection, target_metadata=target_metadata)
    with context.begin_transaction():
        context.run_migrations()
