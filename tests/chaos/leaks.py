"""What a platform takes of its machine: memory, disk, processes, files and locks left behind."""

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psutil

from chaos import victims
from chaos.scene import Scene
from podium_kit.embedded.postgres import EmbeddedPostgres

# Records of the broker are kept in its memory, and histories of Temporal on its disk.
OLD_TRANSACTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE xact_start < now() - interval '5 minutes' AND backend_type = 'client backend'
"""
MIB = 1 << 20


@dataclass(frozen=True)
class Taken:
    """At one moment, in seconds since the start."""

    at_s: float
    memory_bytes: int
    disk_bytes: int
    processes: int
    temporary_files: int
    """Of sandboxes."""
    old_transactions: int


async def taken(scene: Scene, at_s: float) -> Taken:
    family = psutil.Process().children(recursive=True)
    return Taken(
        at_s,
        sum(_memory(each) for each in family),
        _size(scene.platform.state.path),
        len(family),
        len(sandbox_folders()),
        await _old_transactions(scene),
    )


def growth_per_hour(found: Sequence[Taken]) -> str:
    """Of memory and disk, from a quarter of the run on: by then everything is warm."""
    steady = found[len(found) // 4 :]
    first, last = steady[0], steady[-1]
    seconds = max(last.at_s - first.at_s, 1.0)
    hours = seconds / 3600
    memory = (last.memory_bytes - first.memory_bytes) / MIB / hours
    disk = (last.disk_bytes - first.disk_bytes) / MIB / hours
    over = f"over {seconds / 60:.0f} minutes"
    return f"memory {memory:+.0f} MiB an hour, disk {disk:+.0f} MiB an hour, {over}"


def left_behind(first: Taken, last: Taken) -> list[str]:
    """What should be as it was at the start, once nothing runs."""
    found = []
    if last.temporary_files > first.temporary_files + 1:
        found.append(f"{last.temporary_files} folders of sandboxes, {first.temporary_files} before")
    if last.old_transactions:
        found.append(f"{last.old_transactions} transactions are open for minutes")
    return found


def orphans(scene: Scene) -> list[str]:
    """Programs of ended sandboxes and services that still run."""
    adapters = scene.process(victims.ADAPTERS).pid
    below = {each.pid for each in psutil.Process(adapters).children(recursive=True)}
    mine = psutil.Process().children(recursive=True)
    return [f"bwrap {each.pid} runs on its own" for each in mine if _stray(each, below)]


def sandbox_folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("podium-sandbox-*"))


def _stray(process: psutil.Process, below: set[int]) -> bool:
    with suppress(psutil.Error):
        return process.name() == "bwrap" and process.pid not in below
    return False


def _memory(process: psutil.Process) -> int:
    """Of its own: what PostgreSQL's backends share counts once."""
    with suppress(psutil.Error):
        memory = process.memory_info()
        return int(memory.rss - getattr(memory, "shared", 0))
    return 0


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total


async def _old_transactions(scene: Scene) -> int:
    dsn = EmbeddedPostgres(scene.platform.state.path / "postgres").dsn("postgres")
    connection = await asyncpg.connect(dsn.replace("+asyncpg", ""))
    try:
        return int(await connection.fetchval(OLD_TRANSACTIONS))
    finally:
        await connection.close()
