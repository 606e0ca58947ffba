import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

import cost_ledger
from callers import make_key_pair, write_verify_keys
from embedded_servers import Database
from episodes.workflows.connection import TemporalUnreachable, connect_temporal
from podium_kit.embedded.ports import free_port
from podium_kit.postgres.migrations import (
    DatabaseUnreachable,
    OtherSchema,
    UnknownRevision,
    upgrade,
)

LEDGER = Path(str(cost_ledger.__file__)).parent / "migrations"


def test_a_service_without_its_database_ends_with_one_line_of_cause_and_fix(
    tmp_path: Path,
) -> None:
    port = free_port()
    url = f"postgresql+asyncpg://me:hidden@127.0.0.1:{port}/registry"
    settings = {
        "PORT": "0",
        "DATABASE_URL": url,
        "COST_LEDGER_TARGET": "127.0.0.1:1",
        "EPISODES_TARGET": "127.0.0.1:1",
        "VERIFY_KEYS_FILE": str(write_verify_keys(tmp_path / "keys.json", [make_key_pair()])),
    }
    run = subprocess.run(
        [sys.executable, "-m", "tool_registry"],
        env={f"TOOL_REGISTRY_{name}": value for name, value in settings.items()}
        | {"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    last = run.stderr.splitlines()[-1]
    assert f"127.0.0.1:{port}/registry cannot be used" in last
    assert "DATABASE_URL" in last
    assert "hidden" not in run.stdout + run.stderr


async def test_a_database_that_does_not_exist_is_named(database: Database, tmp_path: Path) -> None:
    url = make_url(await database()).set(database="nowhere").render_as_string(hide_password=False)
    with pytest.raises(DatabaseUnreachable, match='"nowhere" does not exist'):
        await upgrade(url, tmp_path)


async def test_a_database_from_before_the_first_release_is_named(
    database: Database,
) -> None:
    url = await database_at("0029", database)
    with pytest.raises(UnknownRevision, match=r"0029.*--state-dir"):
        await upgrade(url, LEDGER)


@pytest.mark.parametrize(
    "change",
    ["UPDATE schema_origin SET digest = 'another'", "DROP TABLE schema_origin"],
)
async def test_a_database_of_a_build_with_other_tables_is_named(
    database: Database, change: str
) -> None:
    url = await database("cost_ledger")
    await upgrade(url, LEDGER)
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.execute(text(change))
    await engine.dispose()
    with pytest.raises(OtherSchema, match=r"earlier build.*--state-dir"):
        await upgrade(url, LEDGER)


async def test_an_older_build_serves_a_newer_database(
    database: Database,
) -> None:
    await upgrade(await database_at("9999", database), LEDGER)


async def database_at(revision: str, database: Database) -> str:
    url = await database()
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE alembic_version (version_num text)"))
        await connection.execute(text("INSERT INTO alembic_version VALUES (:r)"), {"r": revision})
    await engine.dispose()
    return url


async def test_temporal_out_of_reach_is_named() -> None:
    target = f"127.0.0.1:{free_port()}"
    with pytest.raises(TemporalUnreachable, match=target):
        await connect_temporal(target, "default", attempts_max=1)
