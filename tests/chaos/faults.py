import asyncio
import json
import os
import resource
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from pathlib import Path

import psutil

from chaos import victims
from chaos.leaks import sandbox_folders
from chaos.plan import Fault, NotPossible, Round
from chaos.scene import Scene
from podium_kit.embedded.gate.gate import issue
from podium_operations.local.keys import ensure_keys
from podium_operations.local.services import service_processes
from podium_operations.local.supervision import answers

SIGNER = "episode-worker"
# Of the worker's tokens; the gateway's are verified by the same file.
VERIFIERS = (victims.LEDGER, victims.REGISTRY, victims.ADAPTERS, victims.INFERENCE)
BETWEEN_S = 3.0


async def rotate_signing_key(scene: Scene) -> None:
    """The worker gets a new key; for some seconds half of the services know the old one only."""
    folder = scene.platform.state.keys
    (folder / f"{SIGNER}.pem").unlink()
    verify = ensure_keys(folder).verify_keys_file
    assert SIGNER in json.loads(verify.read_text())
    for name in (*VERIFIERS[:2], victims.WORKER, *VERIFIERS[2:]):
        # A process reads its keys when it starts.
        await scene.process(name).kill()
        await asyncio.sleep(BETWEEN_S)


async def rotate_certificate(scene: Scene) -> None:
    """A new authority and new certificates; the gates show them from their next start on."""
    issue(scene.platform.state.certificates)
    for name in (victims.TEMPORAL, victims.BROKER):
        await scene.process(name).kill()
        await asyncio.sleep(BETWEEN_S)


# Debian's libfaketime, loaded before one process, gives it a clock that can be set. Only the wall
# clock is another, as after a step of NTP: deadlines and waits go by the monotonic one.
LIBRARIES = ("*/faketime/libfaketimeMT.so.1", "faketime/libfaketimeMT.so.1")
START_S = 180.0
CLOCK_PAUSE_S = 0.2


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
        await asyncio.sleep(CLOCK_PAUSE_S)


PARTED_S = 20.0
FULL_S = 15.0
# Long enough to meet running code, too short to break a sandbox as often as poisonous code does.
KILLING_SANDBOXES_S = 5.0
MEMORY_LEFT_BYTES = 1 << 20
STARVED_S = 10.0
# Longer than a token between services is valid, either way.
JUMPS_S, JUMPED_S = (3600.0, -3600.0), 15.0
BALLAST = "ballast"
PAUSE_S = 0.1


def prepared(scene: Scene, one: Round) -> AbstractAsyncContextManager[None]:
    return own_clock(scene, one.victim) if one.fault is Fault.CLOCK_JUMP else nullcontext()


async def inflict(scene: Scene, one: Round, stall_s: float) -> None:
    """Does it and undoes it; returns once nothing is wrong any more but what it broke.

    Raises NotPossible.
    """
    if one.fault is Fault.STALL:
        await _stall(_family(scene.process(one.victim)), stall_s)
    else:
        await DOING[one.fault](scene, one.victim)


async def _kill(scene: Scene, victim: str) -> None:
    if victim == victims.SANDBOX:
        until = time.monotonic() + KILLING_SANDBOXES_S
        while time.monotonic() < until:
            _signal(_sandboxes(scene), signal.SIGKILL)
            await asyncio.sleep(PAUSE_S)
        return
    await scene.process(victim).kill()


async def _stall(processes: Iterable[psutil.Process], seconds: float) -> None:
    stopped = list(processes)
    _signal(stopped, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        _signal(stopped, signal.SIGCONT)


async def _part(scene: Scene, name: str) -> None:
    if name not in scene.relays:
        # The gate is the only way to the broker, which itself runs on.
        gate = psutil.Process(scene.process(victims.BROKER).pid)
        await _stall([gate], PARTED_S)
        return
    scene.relays[name].part()
    try:
        await asyncio.sleep(PARTED_S)
    finally:
        scene.relays[name].rejoin()


async def _fill_disk(scene: Scene, victim: str) -> None:
    if victim not in scene.disks:
        raise NotPossible("mounting a small disk takes root")
    ballast = scene.disks[victim] / BALLAST
    await asyncio.to_thread(_fill, ballast)
    try:
        until = time.monotonic() + FULL_S
        while time.monotonic() < until:
            # What is freed meanwhile, by a process that starts again, is taken, too.
            await asyncio.sleep(PAUSE_S)
            await asyncio.to_thread(_fill, ballast)
    finally:
        ballast.unlink()


def _fill(ballast: Path) -> None:
    block = bytes(1 << 16)
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(block)


async def _starve(scene: Scene, victim: str) -> None:
    pid = scene.process(victim).pid
    assert pid is not None
    used = psutil.Process(pid).memory_info().vms
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_AS, (used + MEMORY_LEFT_BYTES, -1))
        until = time.monotonic() + STARVED_S
        while time.monotonic() < until and scene.process(victim).pid == pid:
            await asyncio.sleep(PAUSE_S)
        resource.prlimit(pid, resource.RLIMIT_AS, (-1, -1))


async def _jump(scene: Scene, _victim: str) -> None:
    """Forward, from there far back, and at last right again."""
    try:
        for offset_s in JUMPS_S:
            set_clock(scene, offset_s)
            await asyncio.sleep(JUMPED_S)
    finally:
        set_clock(scene, 0)


async def _lose_state(scene: Scene, victim: str) -> None:
    if victim == victims.BROKER:
        # It keeps records in memory.
        await scene.process(victim).kill()
        return
    # What the sandboxes of this machine share: a cleaner of temporary files may take it.
    for folder in sandbox_folders():
        shutil.rmtree(folder, ignore_errors=True)


async def _rotate(scene: Scene, victim: str) -> None:
    if victim == victims.SIGNING_KEY:
        await rotate_signing_key(scene)
    else:
        await rotate_certificate(scene)


def _family(process: object) -> list[psutil.Process]:
    """The process and everything below it: PostgreSQL's backends, the server behind a gate."""
    pid = getattr(process, "pid", None)
    if pid is None:
        return []
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    return []


def _sandboxes(scene: Scene) -> list[psutil.Process]:
    return [each for each in _family(scene.process(victims.ADAPTERS))[1:] if _name(each) == "bwrap"]


def _name(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return str(process.name())
    return ""


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for each in processes:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            os.kill(each.pid, number)


DOING: dict[Fault, Callable[[Scene, str], Awaitable[None]]] = {
    Fault.KILL: _kill,
    Fault.PARTITION: _part,
    Fault.DISK_FULL: _fill_disk,
    Fault.OUT_OF_MEMORY: _starve,
    Fault.CLOCK_JUMP: _jump,
    Fault.STATE_LOST: _lose_state,
    Fault.ROTATION: _rotate,
}
