import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from podium_kit.embedded.errors import PortTaken, StartupFailed
from podium_kit.embedded.ports import LOOPBACK, accepts_connections, free_ports, require_free
from podium_kit.embedded.process import ManagedProcess

DIES_AT_START = "print('reading configuration'); raise SystemExit('no such model: smollm9')"
SPAWNS_AND_WAITS = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
time.sleep(600)
"""
IGNORES_SIGTERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
WRITES_ON_AND_ON = """
import time
number = 0
while True:
    number += 1
    print(f"line {number}", flush=True)
    time.sleep(0.001)
"""
PARENT_OF_A_SERVER = """
import sys, time
from pathlib import Path
from podium_kit.embedded.process import ManagedProcess
server = ManagedProcess("server", [sys.executable, "-c", "import time; time.sleep(600)"],
                        log_path=Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


def python(name: str, code: str, tmp_path: Path) -> ManagedProcess:
    return ManagedProcess(name, [sys.executable, "-c", code], log_path=tmp_path / f"{name}.log")


async def never() -> bool:
    return False


async def wait_for_log(process: ManagedProcess, word: str) -> str:
    async def logged() -> bool:
        return word in process.log_tail()

    await process.wait_ready(logged, timeout_s=30)
    return process.log_tail()


def ended(process: psutil.Process) -> bool:
    """A dead orphan may stay a zombie where process 1 does not reap."""
    psutil.wait_procs([process], timeout=5)
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


async def test_a_process_that_dies_at_start_reports_its_last_log_lines(tmp_path: Path) -> None:
    process = python("model", DIES_AT_START, tmp_path)
    process.start()
    with pytest.raises(StartupFailed) as failure:
        await process.wait_ready(never, timeout_s=60)
    assert "exited with status 1" in failure.value.reason
    assert "no such model: smollm9" in failure.value.reason
    assert failure.value.log_path == tmp_path / "model.log"


async def test_log_lines_of_an_earlier_run_are_kept_but_not_blamed(tmp_path: Path) -> None:
    first = python("server", "print('first run')", tmp_path)
    first.start()
    await first.wait()
    second = python("server", "print('second run')", tmp_path)
    second.start()
    await second.wait()
    assert second.log_tail() == "second run"
    assert (tmp_path / "server.log").read_text() == "first run\nsecond run\n"


async def test_a_process_that_never_becomes_ready_is_ended(tmp_path: Path) -> None:
    process = python("sleeper", "import time; time.sleep(600)", tmp_path)
    process.start()
    with pytest.raises(StartupFailed, match="not ready after"):
        await process.wait_ready(never, timeout_s=0.2)
    assert process.returncode == -signal.SIGKILL


async def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    process = ManagedProcess("ghost", ["/no/such/program"], log_path=tmp_path / "ghost.log")
    with pytest.raises(StartupFailed, match="/no/such/program"):
        process.start()


async def test_terminate_ends_what_the_process_started_too(tmp_path: Path) -> None:
    process = python("parent", SPAWNS_AND_WAITS, tmp_path)
    process.start()
    child = psutil.Process(int((await wait_for_log(process, "child")).split()[-1]))
    await process.terminate(grace_s=10)
    assert process.returncode == -signal.SIGTERM
    assert ended(child)


async def test_terminate_kills_a_process_that_ignores_the_request(tmp_path: Path) -> None:
    process = python("stubborn", IGNORES_SIGTERM, tmp_path)
    process.start()
    await wait_for_log(process, "ready")
    await process.terminate(grace_s=0.2)
    assert process.returncode == -signal.SIGKILL


async def test_restart_brings_a_new_process(tmp_path: Path) -> None:
    process = python("server", "import time; time.sleep(600)", tmp_path)
    process.start()
    first_pid = process.pid
    await process.restart()
    assert process.running
    assert process.pid != first_pid
    await process.kill()


async def test_a_server_dies_with_a_killed_parent(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", PARENT_OF_A_SERVER, str(tmp_path / "server.log")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None
    server = psutil.Process(int(await parent.stdout.readline()))
    assert server.is_running()
    parent.kill()
    await parent.wait()
    assert ended(server)


async def test_a_log_that_grew_too_long_is_kept_once_and_begun_again(tmp_path: Path) -> None:
    process = python("talker", WRITES_ON_AND_ON, tmp_path)
    kept = tmp_path / "talker.log.1"
    process.start()
    try:
        await wait_for_log(process, "line 20")
        process.rotate_log()
        assert not kept.exists()
        for _ in range(2):
            process.rotate_log(bytes_max=16)
            assert kept.read_text().startswith("line ")
            # It writes on where the file begins now, and its last lines are still found.
            await wait_for_log(process, "line ")
    finally:
        await process.kill()
    assert "\0" not in process.log_path.read_text()


def test_free_ports_are_distinct_and_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        require_free(port)


def test_a_taken_port_names_the_process_that_holds_it() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        name = psutil.Process().name()
        with pytest.raises(
            PortTaken, match=rf"port {port} is held by {name} \(process {os.getpid()}\)"
        ):
            require_free(port)
        assert accepts_connections(port)
    assert not accepts_connections(port)


def test_a_taken_port_is_not_promised() -> None:
    (port,) = free_ports(1)
    with socket.create_server((LOOPBACK, port + 1)):
        assert free_ports(1) != [port + 1]
