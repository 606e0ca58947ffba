import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio
from sqlalchemy import make_url

from embedded_servers import Database
from integration.cost_ledger.audit.auditor import roll_up
from integration.cost_ledger.builders import make_capture, make_price, make_record, make_reserve
from integration.cost_ledger.running_ledger import running_ledger
from integration.podium_cli.conftest import CommandLine
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.client.errors import UsageError, UserError
from podium_kit.crypto.key_file import new_key_line
from podium_operations.backups.databases import URL_VARIABLES, LedgerDiffers
from podium_operations.backups.local import KeysDiffer, local_files, restored_installation
from podium_operations.backups.making import KeysCopy, make_backup
from podium_operations.backups.manifest import MANIFEST, BackupUnusable, Manifest, read_manifest
from podium_operations.backups.restoring import (
    TargetInUse,
    TargetNotEmpty,
    TargetRejects,
    restore_databases,
)
from podium_operations.backups.snapshots import one_point
from podium_operations.local.keys import MASTER_KEYS, ensure_keys
from podium_operations.local.state import StateFolder

Urls = Mapping[str, str]
BALANCES = "SELECT * FROM balance ORDER BY tenant, unit"
ENTRIES = "SELECT * FROM entry ORDER BY tenant, sequence"
COUNTER = "CREATE TABLE counter (value bigint NOT NULL)"


@pytest_asyncio.fixture
async def urls(database: Database, tmp_path: Path) -> Urls:
    """The databases of a platform whose ledger has entries of two tenants."""
    made = {name: await database(name) for name in URL_VARIABLES}
    (tmp_path / "keys").mkdir()
    async with running_ledger(made["cost_ledger"], tmp_path / "keys") as ledger:
        await ledger.admin().prices.CreatePrices(
            prices_pb.CreatePricesRequest(specs=[make_price()])
        )
        for tenant in ("acme", "globex"):
            worker = ledger.as_(tenant).ledger
            for key in ("a", "b"):
                await worker.Reserve(make_reserve(key))
                await worker.Capture(make_capture(key))
            await worker.Record(make_record("c"))
        await roll_up(ledger)
    return made


@pytest_asyncio.fixture
async def empty(database: Database) -> Urls:
    return {name: await database() for name in URL_VARIABLES}


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        yield connection
    finally:
        await connection.close()


async def rows(url: str, query: str) -> list[Any]:
    async with connected(url) as connection:
        return [tuple(row) for row in await connection.fetch(query)]


async def restored(folder: Path, urls: Urls, *, replace: bool = False) -> None:
    await restore_databases(folder, read_manifest(folder), urls, replace)


async def test_a_restored_ledger_is_equal_to_the_last_digit(
    urls: Urls, empty: Urls, tmp_path: Path
) -> None:
    manifest = await make_backup(tmp_path / "backup", urls, {})
    await restored(tmp_path / "backup", empty)
    for query in (BALANCES, ENTRIES):
        before = await rows(urls["cost_ledger"], query)
        assert before
        assert await rows(empty["cost_ledger"], query) == before
    assert (manifest.ledger.tenants, manifest.ledger.entries) == (2, 10)


async def test_a_restored_ledger_still_rejects_changes_and_the_service_goes_on(
    urls: Urls, empty: Urls, tmp_path: Path
) -> None:
    await make_backup(tmp_path / "backup", urls, {})
    await restored(tmp_path / "backup", empty)
    async with connected(empty["cost_ledger"]) as connection:
        with pytest.raises(asyncpg.RaiseError, match="immutable"):
            await connection.execute("DELETE FROM entry")
    async with running_ledger(empty["cost_ledger"], tmp_path) as ledger:
        repeated = await ledger.as_("acme").ledger.Capture(make_capture("a"))
        posted = await ledger.as_("acme").ledger.Record(make_record("d"))
    assert repeated.entry.sequence < 6
    assert posted.entry.sequence == 6


async def test_a_backup_is_its_owners_alone_and_has_its_keys_apart(
    urls: Urls, tmp_path: Path
) -> None:
    folder, apart = tmp_path / "backup", tmp_path / "elsewhere" / "keys"
    source = StateFolder(tmp_path / "state")
    source.acquire().release()
    ensure_keys(source.keys)
    (source.path / "mcp-servers").mkdir()
    program = source.path / "mcp-servers" / "run"
    program.write_text("run")
    program.chmod(0o755)
    await make_backup(folder, urls, local_files(source), KeysCopy(source.keys, apart))
    written = {path for root in (folder, apart) for path in (root, *root.rglob("*"))}
    assert {path.name: oct(path.stat().st_mode & 0o077) for path in written} == {
        path.name: "0o0" for path in written
    }
    assert (folder / "files" / "mcp-servers" / "run").stat().st_mode & 0o777 == 0o700
    secret = {path.name: path.read_bytes() for path in source.keys.iterdir()}
    assert {path.name: path.read_bytes() for path in apart.iterdir()} == secret
    found = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not [name for name, text in secret.items() if any(text in each for each in found)]
    again = tmp_path / "again"
    for inside in (again, again / "keys", tmp_path):
        with pytest.raises(UsageError, match="inside the other"):
            await make_backup(again, urls, {}, KeysCopy(source.keys, inside))


async def test_a_restore_without_keys_is_rejected_before_anything_is_touched(
    urls: Urls, tmp_path: Path
) -> None:
    folder = tmp_path / "backup"
    await make_backup(folder, urls, {})
    state = StateFolder(tmp_path / "state")
    for keys, problem in ((None, "has no keys"), (folder, "holds no keys")):
        with pytest.raises(UserError, match=problem):
            await begun(state, folder, keys)


async def begun(state: StateFolder, folder: Path, keys: Path | None) -> None:
    manifest = read_manifest(folder)
    async with restored_installation(state, folder, manifest, replace=False, keys=keys):
        pytest.fail("it was begun")


async def test_a_restore_with_other_keys_is_rejected_before_anything_is_touched(
    urls: Urls, tmp_path: Path
) -> None:
    folder, source, other = (tmp_path / name for name in ("backup", "source", "other"))
    for each in (source, other):
        each.mkdir()
        ensure_keys(each)
    manifest = await make_backup(folder, urls, {}, KeysCopy(source, None))
    key = (source / MASTER_KEYS).read_text().split()[1]
    assert list(manifest.master_keys) == ["1"]
    assert key not in (folder / MANIFEST).read_text()
    state = StateFolder(tmp_path / "state")
    with pytest.raises(KeysDiffer, match="has not the master keys 1 that"):
        await begun(state, folder, other)
    # With later keys beside it, the one that is needed is there.
    with (source / MASTER_KEYS).open("a") as file:
        file.write(new_key_line("2"))
    manifest = read_manifest(folder)
    async with restored_installation(state, folder, manifest, replace=False, keys=source):
        pass


async def test_all_databases_are_of_one_moment_and_no_writer_fails(database: Database) -> None:
    first, second = await database(), await database()
    for url in (first, second):
        async with connected(url) as connection:
            await connection.execute(COUNTER)
            await connection.execute("INSERT INTO counter VALUES (0)")
    stopped = asyncio.Event()

    async def count() -> None:
        async with connected(first) as one, connected(second) as other:
            while not stopped.is_set():
                for connection in (one, other):
                    await connection.execute("UPDATE counter SET value = value + 1")

    writer = asyncio.create_task(count())
    seen = []
    # The later one first, so that a snapshot after the other would show more of it.
    named = {"second": second, "first": first}
    for _ in range(60):
        async with one_point(named) as point:
            seen.append(
                {
                    name: await value_at(named[name], snapshot.name)
                    for name, snapshot in point.snapshots.items()
                }
            )
    stopped.set()
    await writer
    assert seen[-1]["first"] > seen[0]["first"], "nothing was written meanwhile"
    assert {each["first"] - each["second"] for each in seen} <= {0, 1}


async def value_at(url: str, snapshot: str) -> int:
    async with (
        connected(url) as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        await connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        return int(await connection.fetchval("SELECT value FROM counter"))


async def test_a_ledger_that_was_changed_before_the_backup_does_not_verify(
    urls: Urls, empty: Urls, tmp_path: Path
) -> None:
    async with connected(urls["cost_ledger"]) as connection:
        await connection.execute("SET session_replication_role = replica")
        changed = await connection.execute(
            "UPDATE entry SET spend = 1, payable = -1 WHERE tenant = 'globex' AND sequence = 2"
        )
    assert changed == "UPDATE 1"
    await make_backup(tmp_path / "backup", urls, {})
    with pytest.raises(LedgerDiffers, match="tenant globex, entry 2"):
        await restored(tmp_path / "backup", empty)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("changed", "databases/gateway.dump is not the file"),
        ("missing", "databases/gateway.dump is missing"),
        ("unfinished", "it has no manifest.json"),
        ("format", "its format is 2"),
        ("outside", "no path inside"),
    ],
)
async def test_a_damaged_backup_is_rejected_before_anything_is_touched(
    urls: Urls, empty: Urls, tmp_path: Path, damage: str, problem: str
) -> None:
    folder = tmp_path / "backup"
    manifest = await make_backup(folder, urls, {})
    harm(folder, manifest, damage)
    with pytest.raises(BackupUnusable, match=problem):
        await restored(folder, empty)
    assert await rows(empty["gateway"], "SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []


def harm(folder: Path, manifest: Manifest, damage: str) -> None:
    dump = folder / "databases" / "gateway.dump"
    values = json.loads(manifest.model_dump_json())
    match damage:
        case "changed":
            content = bytearray(dump.read_bytes())
            content[-1] ^= 1
            dump.write_bytes(content)
        case "missing":
            dump.unlink()
        case "unfinished":
            (folder / MANIFEST).unlink()
        case "format":
            (folder / MANIFEST).write_text(json.dumps(values | {"format": 2}))
        case "outside":
            values["files"]["../x"] = values["files"]["databases/gateway.dump"]
            (folder / MANIFEST).write_text(json.dumps(values))


async def test_a_backup_of_a_newer_schema_is_rejected(
    urls: Urls, empty: Urls, tmp_path: Path
) -> None:
    async with connected(urls["episodes"]) as connection:
        await connection.execute("UPDATE alembic_version SET version_num = '9999'")
    await make_backup(tmp_path / "backup", urls, {})
    with pytest.raises(BackupUnusable, match="whose episodes has a newer schema"):
        await restored(tmp_path / "backup", empty)


async def test_data_are_only_replaced_when_that_is_asked_for(urls: Urls, tmp_path: Path) -> None:
    await make_backup(tmp_path / "backup", urls, {})
    async with connected(urls["gateway"]) as connection:
        await connection.execute("CREATE TABLE later (id integer)")
    with pytest.raises(TargetNotEmpty, match="cost_ledger is not empty"):
        await restored(tmp_path / "backup", urls)
    assert await rows(urls["gateway"], "SELECT * FROM later") == []
    await restored(tmp_path / "backup", urls, replace=True)
    with pytest.raises(asyncpg.UndefinedTableError):
        await rows(urls["gateway"], "SELECT * FROM later")


async def test_a_database_that_a_service_uses_is_not_restored_into(
    urls: Urls, empty: Urls, tmp_path: Path
) -> None:
    await make_backup(tmp_path / "backup", urls, {})
    async with connected(empty["episodes"]):
        with pytest.raises(TargetInUse, match="1 sessions are connected to the database episodes"):
            await restored(tmp_path / "backup", empty)


async def test_an_owner_who_is_no_superuser_backs_up_and_restores(
    urls: Urls, empty: Urls, tmp_path: Path
) -> None:
    """Each service of a cluster owns its database and nothing else."""
    folder = tmp_path / "backup"
    await make_backup(folder, urls, {})
    owner = f"owner_{uuid4().hex[:8]}"
    owned = {name: await given_to(owner, url) for name, url in empty.items()}
    try:
        await restored(folder, owned)
        await make_backup(tmp_path / "again", owned, {})
        await restored(tmp_path / "again", owned, replace=True)
        with pytest.raises(TargetRejects, match="role"):
            await restore_with_role(folder, owned, f"missing_{owner}")
    finally:
        for url in empty.values():
            async with connected(url) as connection:
                await connection.execute(f"REASSIGN OWNED BY {owner} TO postgres")
                await connection.execute(f"DROP OWNED BY {owner}")
        async with connected(empty["gateway"]) as connection:
            await connection.execute(f"DROP ROLE {owner}")


async def given_to(owner: str, url: str) -> str:
    """The URL of the same database as its new owner."""
    parsed = make_url(url)
    async with connected(url) as connection:
        if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", owner):
            await connection.execute(f"CREATE ROLE {owner} LOGIN")
        await connection.execute(f"ALTER DATABASE {parsed.database} OWNER TO {owner}")
    return parsed.set(username=owner).render_as_string(hide_password=False)


async def restore_with_role(folder: Path, urls: Urls, role: str) -> None:
    manifest = read_manifest(folder)
    ledger = manifest.databases["cost_ledger"].model_copy(update={"roles": [role]})
    databases = {**manifest.databases, "cost_ledger": ledger}
    needing = manifest.model_copy(update={"databases": databases})
    await restore_databases(folder, needing, urls, replace=True)


async def test_the_commands_take_urls_from_the_environment(
    urls: Urls, empty: Urls, tmp_path: Path
) -> None:
    folder = str(tmp_path / "backup")

    async def podium(chosen: Urls, *arguments: str) -> "subprocess.CompletedProcess[str]":
        variables = {URL_VARIABLES[name]: url for name, url in chosen.items()}
        command = CommandLine(tmp_path / "state", variables)
        return await asyncio.to_thread(command, *arguments)

    made = await podium(urls, "backup", "--environment", folder)
    assert made.returncode == 0, made.stderr
    assert "5 databases" in made.stdout
    assert "10 entries of 2 ledgers" in made.stdout
    again = await podium(urls, "backup", "--environment", folder)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    without = {name: url for name, url in empty.items() if name != "gateway"}
    missing = await podium(without, "restore", "--environment", folder)
    assert (missing.returncode, "no GATEWAY_DATABASE_URL" in missing.stderr) == (2, True)
    done = await podium(empty, "restore", "--environment", folder)
    assert done.returncode == 0, done.stderr
    assert "10 entries of 2 ledgers verify" in done.stdout
    assert await rows(empty["cost_ledger"], ENTRIES) == await rows(urls["cost_ledger"], ENTRIES)
    nowhere = await podium({}, "backup", str(tmp_path / "none"))
    assert (nowhere.returncode, "holds no platform" in nowhere.stderr) == (1, True)
