import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from podium_kit.client.errors import UsageError, UserError
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_operations.backups.databases import URL_VARIABLES
from podium_operations.backups.manifest import Manifest
from podium_operations.backups.restoring import TargetNotEmpty
from podium_operations.local.keys import MASTER_KEYS, master_key_fingerprints
from podium_operations.local.state import StateFolder

POSTGRES, TEMPORAL, KEYS = "postgres", "temporal", "keys"
# What no start can make again. Ports and logs are the machine's; Temporal's workflows cannot be
# brought to the point of the databases, so episodes that ran end as failed.
FILES = ("mcp-servers", "registered-tools.json")


class NothingThere(UserError):
    def __init__(self, state: StateFolder) -> None:
        super().__init__(
            f"{state.path} holds no platform",
            "name its folder with --state-dir, or give --environment for databases elsewhere",
        )


class KeysMissing(UserError):
    """Stored secrets would be lost: new keys do not read them."""

    def __init__(self, state: StateFolder) -> None:
        super().__init__(
            f"{state.path} has no keys, and a backup has none: stored secrets could not be read",
            "give --keys with the folder that `podium backup --with-keys` made",
        )


class KeysDiffer(UserError):
    def __init__(self, keys: Path, differing: Sequence[str]) -> None:
        super().__init__(
            f"{keys} has not the master keys {', '.join(differing)} that stored secrets of the "
            "backup are encrypted with",
            "give --keys with the folder that was kept with this backup",
        )


@asynccontextmanager
async def local_databases(state: StateFolder) -> AsyncIterator[dict[str, str]]:
    """URLs of the installation's databases; its PostgreSQL is started for it when it is down.

    Raises NothingThere, EmbeddedError.
    """
    if not (state.path / POSTGRES).exists():
        raise NothingThere(state)
    server = EmbeddedPostgres(state.path / POSTGRES, log_path=state.logs / "postgres.log")
    urls = {name: server.dsn(name) for name in URL_VARIABLES}
    if state.holder() is not None:
        yield urls
        return
    state.acquire()
    try:
        await server.start()
        try:
            yield urls
        finally:
            await server.stop()
    finally:
        state.release()


def local_files(state: StateFolder) -> Mapping[str, Path]:
    return {f"files/{name}": state.path / name for name in FILES if (state.path / name).exists()}


@asynccontextmanager
async def restored_installation(
    state: StateFolder, backup: Path, manifest: Manifest, replace: bool, keys: Path | None
) -> AsyncIterator[dict[str, str]]:
    """URLs of new databases; when all went well they, and the files, are the installation's.

    Without `keys` those of the state folder are used. What was there is moved into another folder,
    and stays as it is when something fails.
    Raises AlreadyUp, StateFolderUnusable, TargetNotEmpty, KeysMissing, KeysDiffer, UsageError,
    EmbeddedError.
    """
    state.acquire()
    scratch = state.path / ".restoring"
    try:
        has_keys = (state.keys / MASTER_KEYS).exists()
        if keys is not None and not (keys / MASTER_KEYS).exists():
            raise UsageError(f"{keys} holds no keys", "name the folder of `backup --with-keys`")
        if not replace and ((state.path / POSTGRES).exists() or (has_keys and keys is not None)):
            raise TargetNotEmpty(str(state.path))
        if keys is None and not has_keys:
            raise KeysMissing(state)
        _require_its_keys(manifest, keys or state.keys)
        shutil.rmtree(scratch, ignore_errors=True)
        server = EmbeddedPostgres(scratch / POSTGRES, log_path=state.logs / "postgres.log")
        try:
            await server.start()
            yield {name: await server.create_database(name) for name in URL_VARIABLES}
        finally:
            await server.stop()
        sources = {name: backup / "files" / name for name in FILES}
        _swap(state.path, scratch, sources if keys is None else sources | {KEYS: keys})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        state.release()


def _require_its_keys(manifest: Manifest, keys: Path) -> None:
    needed = manifest.master_keys
    there = master_key_fingerprints(keys) if needed else {}
    if differing := [key_id for key_id, each in needed.items() if there.get(key_id) != each]:
        raise KeysDiffer(keys, differing)


def _swap(home: Path, scratch: Path, files: Mapping[str, Path]) -> None:
    replaced = home / f"replaced-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    for name in (POSTGRES, TEMPORAL, *files):
        old = home / name
        if old.exists() and not (old.is_dir() and not any(old.iterdir())):
            replaced.mkdir(mode=0o700, exist_ok=True)
            old.rename(replaced / name)
    (scratch / POSTGRES).rename(home / POSTGRES)
    for name, source in files.items():
        if source.is_dir():
            shutil.copytree(source, home / name, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy2(source, home / name)
