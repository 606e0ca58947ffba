import asyncio
import os
import resource
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from pathlib import Path

import psutil

from chaos import victims
from chaos.clocks import own_clock, set_clock
from chaos.leaks import sandbox_folders
from chaos.not_possible import NotPossible
from chaos.pairs import Fault, Round
from chaos.rotations import rotate_certificate, rotate_signing_key
from chaos.scene import Scene

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
