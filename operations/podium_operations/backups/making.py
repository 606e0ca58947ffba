import asyncio
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from podium_kit.client.errors import UsageError
from podium_operations import DISTRIBUTION
from podium_operations.backups.databases import facts_of, ledger_end
from podium_operations.backups.manifest import (
    FORMAT,
    BackupFile,
    Manifest,
    describe,
    dump_path,
    write_manifest,
)
from podium_operations.backups.programs import dump
from podium_operations.backups.snapshots import Point, one_point
from podium_operations.local.keys import master_key_fingerprints

# Certificates of one start of a local platform.
NOT_COPIED = ("loopback",)


@dataclass(frozen=True)
class KeysCopy:
    """The keys of an installation, and the folder that a backup writes them to, if it does."""

    source: Path
    target: Path | None


async def make_backup(
    folder: Path, urls: Mapping[str, str], files: Mapping[str, Path], keys: KeysCopy | None = None
) -> Manifest:
    """Writes the folder whole or not at all. `files` are files and folders by their path in it.

    Keys are apart from what they encrypt: who finds one of the folders reads no secret.

    Raises UsageError, DatabaseUnreachable, NoTables, TablesBusy, ProgramFailed.
    """
    with ExitStack() as stack:
        unfinished = stack.enter_context(_whole(folder))
        if keys is not None and keys.target is not None:
            _require_apart(folder, keys.target)
            _copy(keys.source, stack.enter_context(_whole(keys.target)))
        fingerprints = master_key_fingerprints(keys.source) if keys else {}
        return await _fill(unfinished, urls, files, fingerprints)


def _require_apart(folder: Path, keys: Path) -> None:
    one, other = folder.resolve(), keys.resolve()
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise UsageError(
            f"{keys} and {folder} are one folder inside the other",
            "name a folder for the keys that is kept elsewhere",
        )


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A folder of another name, which takes its own when all of it is written."""
    if folder.exists():
        raise UsageError(f"{folder} exists already", "name a folder that podium may make")
    unfinished = folder.with_name(folder.name + ".unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700, parents=True)
        yield unfinished
        for path in (unfinished, *unfinished.rglob("*")):
            # Of programs in it, the owner's right to run them remains.
            path.chmod(path.stat().st_mode & 0o700)
        unfinished.rename(folder)
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise UsageError(f"{folder} cannot be written: {cause}", "name another folder") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


async def _fill(
    folder: Path,
    urls: Mapping[str, str],
    files: Mapping[str, Path],
    master_keys: Mapping[str, str],
) -> Manifest:
    async with one_point(urls) as point:
        databases = {
            name: await facts_of(name, snapshot.connection)
            for name, snapshot in point.snapshots.items()
        }
        end = await ledger_end(point.snapshots["cost_ledger"].connection)
        await _dump_all(folder, urls, point)
    for name, source in files.items():
        _copy(source, folder / name)
    manifest = Manifest(
        format=FORMAT,
        podium_version=version(DISTRIBUTION),
        point_time=point.time,
        databases=databases,
        ledger=end,
        master_keys=dict(master_keys),
        files=_files_of(folder),
    )
    write_manifest(folder, manifest)
    return manifest


async def _dump_all(folder: Path, urls: Mapping[str, str], point: Point) -> None:
    for name in urls:
        (folder / dump_path(name)).parent.mkdir(exist_ok=True)
    outcomes = await asyncio.gather(
        *(
            dump(name, url, point.snapshots[name].name, folder / dump_path(name))
            for name, url in urls.items()
        ),
        return_exceptions=True,
    )
    for error in filter(None, outcomes):
        raise error


def _files_of(folder: Path) -> dict[str, BackupFile]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): describe(path) for path in found}


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignored = shutil.ignore_patterns(*NOT_COPIED)
        shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
    elif source.exists():
        shutil.copy2(source, target)
