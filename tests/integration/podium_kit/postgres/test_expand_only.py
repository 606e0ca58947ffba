"""A migration takes nothing from the services of before, which serve on its tables (ADR 28)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from embedded_servers import Database
from integration.podium_kit.postgres.catalogue import broken, promises
from unit.house.source_files import ROOT

SERVICES = sorted(path.parent.name for path in (ROOT / "services").glob("*/migrations"))
# Changes that are stricter, by service and revision, with the reason why services of the version
# before do not notice.
EXCEPTIONS: dict[tuple[str, str], dict[str, str]] = {}
BEFORE = """
    CREATE TABLE thing (id int PRIMARY KEY, name text, kind text NOT NULL DEFAULT 'a', size int);
    CREATE TABLE part (id int PRIMARY KEY);
    CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql RETURN 2 * n;
    GRANT SELECT, INSERT ON thing TO pg_monitor;
"""
BREAKING = {
    "ALTER TABLE thing DROP COLUMN name": "thing: column name is gone",
    "ALTER TABLE thing RENAME COLUMN name TO title": "thing: column name is gone",
    "DROP TABLE part": "part: column id is gone",
    "ALTER TABLE thing ALTER size TYPE text": "thing: column size was integer and is text",
    "ALTER TABLE thing ALTER name SET NOT NULL": "thing: column name became NOT NULL",
    "ALTER TABLE thing ALTER kind DROP DEFAULT": "thing: column kind lost its default",
    "ALTER TABLE thing ADD owner text NOT NULL": "column owner is NOT NULL without a default",
    "ALTER TABLE thing ADD CHECK (size > 0)": "thing: new CHECK ((size > 0))",
    "ALTER TABLE thing ADD FOREIGN KEY (size) REFERENCES part": "thing: new FOREIGN KEY (size)",
    "CREATE UNIQUE INDEX ON thing (name)": "thing: new CREATE UNIQUE INDEX ON public.thing",
    "ALTER TABLE thing ENABLE ROW LEVEL SECURITY": "thing: new ROW LEVEL SECURITY",
    "REVOKE INSERT ON thing FROM pg_monitor": "thing: grant to pg_monitor lost INSERT",
    "DROP FUNCTION twice": "twice(integer) is another, or gone",
    "CREATE OR REPLACE FUNCTION twice(n int) RETURNS int LANGUAGE sql RETURN 3": "twice(integer)",
    """CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER never BEFORE INSERT ON thing FOR EACH ROW EXECUTE FUNCTION no()""": (
        "thing: new CREATE TRIGGER never"
    ),
}
EXPANDING = """
    CREATE TABLE other (id int PRIMARY KEY, thing int NOT NULL REFERENCES thing, CHECK (id > 0));
    ALTER TABLE thing ADD colour text, ADD place int NOT NULL DEFAULT 0;
    ALTER TABLE thing ALTER kind DROP NOT NULL, ALTER size SET DEFAULT 1;
    CREATE INDEX ON thing (name);
    CREATE FUNCTION thrice(n int) RETURNS int LANGUAGE sql RETURN 3 * n;
    GRANT UPDATE ON thing TO pg_monitor;
"""


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("service", SERVICES)
async def test_no_migration_takes_anything_away(service: str, database: Database) -> None:
    url, migrations = await database(), ROOT / "services" / service / "migrations"
    scripts = ScriptDirectory(str(migrations))
    oldest, *later = reversed(list(scripts.walk_revisions()))
    await migrate(url, migrations, oldest.revision)
    excused = {key: dict(found) for key, found in EXCEPTIONS.items() if key[0] == service}
    for script in later:
        async with connected(url) as connection:
            before = await promises(connection)
        await migrate(url, migrations, script.revision)
        async with connected(url) as connection:
            found = list(broken(before, await promises(connection)))
        for excuse in excused.pop((service, script.revision), {}):
            assert any(each.startswith(excuse) for each in found), f"excuses nothing: {excuse}"
            found = [each for each in found if not each.startswith(excuse)]
        assert not found, (
            f"{service} of before may not work on revision {script.revision}: {found}; only add,"
            " and take away in the release after the one whose code stopped needing it"
        )
    assert not excused, f"no such migrations: {sorted(excused)}"


@pytest.mark.parametrize("change", BREAKING)
async def test_what_takes_away_is_found(change: str, database: Database) -> None:
    [found] = await broken_by(await database(), change)
    assert BREAKING[change] in found


async def test_what_only_adds_is_let_through(database: Database) -> None:
    assert not await broken_by(await database(), EXPANDING)


async def broken_by(url: str, change: str) -> list[str]:
    async with connected(url) as connection:
        await connection.execute(BEFORE)
        before = await promises(connection)
        await connection.execute(change)
        return list(broken(before, await promises(connection)))


async def migrate(url: str, migrations: Path, revision: str) -> None:
    def upgrade(connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(migrations))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(upgrade)
    await engine.dispose()
