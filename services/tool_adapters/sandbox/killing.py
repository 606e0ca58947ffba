import asyncio
import os
import time
from asyncio.subprocess import Process
from contextlib import suppress

import psutil

# A killed process takes a moment to die.
DEATH_TIMEOUT_S = 2.0


async def kill_all(launcher: Process) -> None:
    """Everything that the launcher, which leads a session, started; also if it is dead itself."""
    # While the session has members its number is taken: a process of that number is another's.
    if launcher.returncode is None or not psutil.pid_exists(launcher.pid):
        await kill_tree(launcher.pid)


async def kill_tree(pid: int) -> None:
    """Kills the session's members and everything below them, however far the start has come."""
    tree = await asyncio.to_thread(_killed, pid)
    deadline = time.monotonic() + DEATH_TIMEOUT_S
    while any(map(_is_alive, tree)) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.002)


def _killed(pid: int) -> list[psutil.Process]:
    """Kills until nothing more is found: a child may be born to a parent just killed.

    Nothing is stopped first. What is stopped would stay so if this process were killed then.
    """
    killed: list[psutil.Process] = []
    while found := [each for each in _tree(pid) if each not in killed]:
        for each in found:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        killed += found
    return killed


def _tree(session: int) -> list[psutil.Process]:
    """Its leader may be gone, and with it the way down to what it started."""
    found = []
    for pid in psutil.pids():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getsid(pid) == session:
                member = psutil.Process(pid)
                found += [member, *member.children(recursive=True)]
    return found


def _is_alive(process: psutil.Process) -> bool:
    """A zombie is dead: it only waits for its parent to take note."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False
