import ctypes
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import asyncpg
import psutil

from chaos import victims
from chaos.scene import Scene
from podium_kit.embedded.postgres import EmbeddedPostgres
from process_owner import PR_SET_CHILD_SUBREAPER, runs

OLD_TRANSACTIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE xact_start < now() - interval '5 minutes' AND backend_type = 'client backend'
"""
MIB = 1 << 20


@dataclass(frozen=True)
class Taken:
    """At one moment, while no episode runs; in seconds since the start."""

    at_s: float
    episodes: int
    """Accepted until then."""
    memory_bytes: int
    """Without the broker, which keeps its records in memory."""
    broker_bytes: int
    disk_bytes: int
    processes: int
    connections: int
    """Sockets of all processes, both ends of a connection counted."""
    open_files: int
    temporary_files: int
    """Files in the folder that is the platform's own."""
    file_locks: int
    old_transactions: int


async def taken(scene: Scene, at_s: float, episodes: int) -> Taken:
    _reap_adopted(known_processes(scene))
    family = psutil.Process().children(recursive=True)
    broker = set(_family(scene.process(victims.BROKER).pid))
    descriptors = [link for each in family for link in _descriptors(each.pid)]
    sockets = sum(link.startswith("socket:") for link in descriptors)
    return Taken(
        at_s,
        episodes,
        sum(_memory(each) for each in family if each not in broker),
        sum(map(_memory, broker)),
        _size(scene.platform.state.path),
        len(family),
        sockets,
        len(descriptors) - sockets,
        len(os.listdir(tempfile.gettempdir())),  # noqa: PTH208 (not of a task's own)
        _file_locks({each.pid for each in family}),
        await _old_transactions(scene),
    )


def left_behind(first: Taken, last: Taken) -> list[str]:
    found = []
    if last.temporary_files > first.temporary_files:
        found.append(f"{last.temporary_files} temporary files, {first.temporary_files} before")
    if last.file_locks > first.file_locks:
        found.append(f"{last.file_locks} file locks are held, {first.file_locks} before")
    if last.old_transactions:
        found.append(f"{last.old_transactions} transactions are open for minutes")
    return found


def adopt_orphans() -> None:
    """From now on what loses its parent below this process is its child, and can be seen."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def known_processes(scene: Scene) -> set[int]:
    every = (*scene.outside.values(), *scene.platform.processes.values())
    return {each.pid for each in every if each.pid is not None}


def orphans(known: set[int]) -> list[psutil.Process]:
    return [each for each in psutil.Process().children() if each.pid not in known and runs(each)]


def sandbox_folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("podium-sandbox-*"))


def _reap_adopted(known: set[int]) -> None:
    for each in psutil.Process().children():
        if each.pid not in known and not runs(each):
            with suppress(ChildProcessError):
                os.waitpid(each.pid, os.WNOHANG)


def _family(pid: int | None) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        if pid is not None:
            parent = psutil.Process(pid)
            return [parent, *parent.children(recursive=True)]
    return []


def _memory(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        memory = process.memory_info()
        return int(memory.rss - getattr(memory, "shared", 0))
    return 0


def _descriptors(pid: int) -> list[str]:
    found = []
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.append(str(path.readlink()))
    return found


def _file_locks(pids: set[int]) -> int:
    """See proc_locks(5): `1: FLOCK ADVISORY WRITE <pid> ...`, and `->` before those who wait."""
    lines = Path("/proc/locks").read_text().splitlines()
    held = (line.split() for line in lines if "->" not in line)
    return sum(int(fields[4]) in pids for fields in held)


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


# A quarter to become warm, one for the baseline, and the last to compare with it.
MEASURES_MIN = 8
# Two segments of PostgreSQL's log.
STEP_KIB = 32 * 1024
COLUMNS = ("what", "once warm", "at the end", "most allowed", "verdict")


@dataclass(frozen=True)
class Growth:
    name: str
    baseline: float
    last: float
    limit: float

    @property
    def reason(self) -> str:
        if self.last <= self.limit:
            return ""
        return (
            f"{self.name} grew from {self.baseline:.1f} to {self.last:.1f}, "
            f"more than the {self.limit:.1f} allowed"
        )


def grown(found: Sequence[Taken]) -> list[Growth]:
    if len(found) < MEASURES_MIN:
        return []
    return [
        _flat("memory, MiB", found, lambda one: one.memory_bytes / MIB, 0.1, 64),
        _flat("processes", found, lambda one: one.processes, 0.1, 2),
        _flat("connections", found, lambda one: one.connections, 0.2, 20),
        _flat("open files", found, lambda one: one.open_files, 0.2, 20),
        # What is kept of each episode: more of it for later ones is a leak.
        _kept("disk for each episode, KiB", found, lambda one: one.disk_bytes / 1024),
        _kept("broker for each episode, KiB", found, lambda one: one.broker_bytes / 1024),
    ]


def _flat(
    name: str, found: Sequence[Taken], of: Callable[[Taken], float], share: float, more: float
) -> Growth:
    """A share of the baseline, and so much for what comes and goes."""
    baseline, last = (median(map(of, part)) for part in (_warm(found), _end(found)))
    return Growth(name, baseline, last, baseline * (1 + share) + more)


def _kept(name: str, found: Sequence[Taken], of: Callable[[Taken], float]) -> Growth:
    """Half as much again as the baseline's, and a step: databases take their disk in segments."""
    half = len(found) // 2
    warm, later = found[len(found) // 4 : half + 1], found[half:]
    baseline = _for_each_episode(warm, of)
    limit = 1.5 * max(baseline, 0.0) + STEP_KIB / _episodes(later)
    return Growth(name, baseline, _for_each_episode(later, of), limit)


def _for_each_episode(part: Sequence[Taken], of: Callable[[Taken], float]) -> float:
    return (of(part[-1]) - of(part[0])) / _episodes(part)


def _episodes(part: Sequence[Taken]) -> int:
    return max(part[-1].episodes - part[0].episodes, 1)


def _warm(found: Sequence[Taken]) -> Sequence[Taken]:
    return found[len(found) // 4 : len(found) // 2]


def _end(found: Sequence[Taken]) -> Sequence[Taken]:
    return found[-(len(found) // 4) :]


def growth_table(found: Sequence[Taken]) -> str:
    rows = [_row(one) for one in grown(found)]
    if not rows:
        return f"growth is not measured: {len(found)} measurements, {MEASURES_MIN} are needed"
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _row(one: Growth) -> tuple[str, ...]:
    amounts = (f"{each:.1f}" for each in (one.baseline, one.last, one.limit))
    return (one.name, *amounts, one.reason or "flat")
