"""A clock of its own for one process, which can be set: Debian's libfaketime, loaded before it.

Only the wall clock is another, as after a step of NTP: deadlines and waits go by the monotonic one.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from chaos.not_possible import NotPossible
from chaos.scene import Scene
from podium_operations.local.services import service_processes
from podium_operations.local.supervision import answers

LIBRARIES = ("*/faketime/libfaketimeMT.so.1", "faketime/libfaketimeMT.so.1")
START_S = 180.0
PAUSE_S = 0.2


def library() -> Path:
    for root in map(Path, ("/usr/lib", "/usr/lib64")):
        for pattern in LIBRARIES:
            for path in sorted(root.glob(pattern)):
                return path
    raise NotPossible("a clock of its own takes libfaketime: apt-get install libfaketime")


def set_clock(scene: Scene, offset_s: float) -> None:
    file = _file(scene)
    # Replaced as a whole: it is read at any time.
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{offset_s:+.0f}s\n")
    fresh.chmod(0o644)
    fresh.replace(file)


@asynccontextmanager
async def own_clock(scene: Scene, victim: str) -> AsyncIterator[None]:
    """The process is started anew with a clock that `set_clock` sets, and at the end without."""
    loaded = library()
    process = scene.process(victim)
    argv = list(process.argv)
    set_clock(scene, 0)
    process.argv[:] = [*_prefix(loaded, _file(scene)), *argv]
    try:
        await _restarted(scene, victim)
        if not _is_loaded(process.pid):
            raise NotPossible(f"{victim} does not load {loaded}")
        yield
    finally:
        set_clock(scene, 0)
        process.argv[:] = argv
        await _restarted(scene, victim)


def _is_loaded(pid: int | None) -> bool:
    with suppress(OSError):
        return "libfaketime" in Path(f"/proc/{pid}/maps").read_text()
    return False


def _prefix(loaded: Path, file: Path) -> list[str]:
    return [
        "env",
        f"LD_PRELOAD={loaded}",
        f"FAKETIME_TIMESTAMP_FILE={file}",
        "FAKETIME_CACHE_DURATION=1",
        "DONT_FAKE_MONOTONIC=1",
        "NO_FAKE_STAT=1",
    ]


def _file(scene: Scene) -> Path:
    return scene.folder / "clock"


async def _restarted(scene: Scene, victim: str) -> None:
    assert scene.platform.around is not None
    before = scene.process(victim).pid
    await scene.process(victim).kill()
    ports = {one.name: one.port for one in service_processes(scene.platform.around)}
    deadline = time.monotonic() + START_S
    while True:
        process = scene.process(victim)
        if process.running and process.pid != before and await answers(victim, ports[victim]):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{victim} is not ready {START_S:.0f} s after its start")
        await asyncio.sleep(PAUSE_S)
