"""Hostile code in the sandbox: each attack ends in a typed failure or harms nothing."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import psutil
import pytest

from failures import FailureKind
from tool_adapters.sandbox import Execution, Limits, Sandbox, Workspaces

MIB = 1024 * 1024
SMALL = Limits(
    wall_time_s=10,
    memory_bytes=256 * MIB + os.getpid() * 4096,
    workspace_bytes=8 * MIB,
    workspace_entries=50,
    temporary_bytes=8 * MIB,
    output_bytes=10_000,
)


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(Workspaces(tmp_path / "workspaces"))


async def run(sandbox: Sandbox, code: str, limits: Limits = SMALL) -> Execution:
    return await sandbox.run(dedent(code), limits)


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    yield
    assert [each for each in psutil.process_iter(["cmdline"]) if _is_ours(each)] == []


def _is_ours(process: psutil.Process) -> bool:
    """Sandboxes of other test processes run at the same time; the limits tell them apart."""
    return any(str(SMALL.memory_bytes) in argument for argument in process.info["cmdline"] or ())


async def test_no_connection_leaves_the_sandbox(sandbox: Sandbox) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        code = f"""
        import socket
        print(socket.if_nameindex())
        socket.create_connection(("127.0.0.1", {port}), timeout=2)
        """
        execution = await run(sandbox, code)
    assert execution.failure is not None
    assert execution.failure.kind is FailureKind.TOOL_ERROR
    assert "ConnectionRefusedError" in execution.output
    assert "[(1, 'lo')]" in execution.output


async def test_abstract_unix_sockets_of_the_host_are_out_of_reach(sandbox: Sandbox) -> None:
    name = f"\0podium-test-{os.getpid()}"
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(name)
        server.listen()
        code = f"""
        import socket
        socket.socket(socket.AF_UNIX).connect({name!r})
        """
        execution = await run(sandbox, code)
    assert "ConnectionRefusedError" in execution.output


async def test_environment_of_the_service_is_invisible(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", "canary-7f3a")
    code = """
    import glob, os
    print(dict(os.environ))
    for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/task/*/environ"):
        try:
            print(path, open(path, "rb").read())
        except OSError as error:
            print(error)
    """
    execution = await run(sandbox, code)
    assert execution.failure is None
    assert "/proc/1/environ" in execution.output
    assert "canary-7f3a" not in execution.output


async def test_files_of_the_machine_do_not_exist_inside(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("canary")
    code = f"""
    import os
    paths = ["/etc", "/home", "/var", "/bin/sh", "/proc/1/root/etc", {__file__!r}, {str(secret)!r}]
    print([path for path in paths if os.path.exists(path)])
    """
    execution = await run(sandbox, code)
    assert execution.output == "[]\n"


async def test_link_to_a_file_of_the_machine_is_not_collected(sandbox: Sandbox) -> None:
    code = """
    import os
    os.symlink("/etc/passwd", "passwd.txt")
    os.symlink("/", "root")
    os.mkfifo("pipe.txt")
    open("honest.txt", "w").write("mine")
    """
    execution = await run(sandbox, code)
    assert execution.failure is None
    assert [(file.name, file.data) for file in execution.files] == [("honest.txt", b"mine")]


async def test_fork_bomb_runs_out_of_processes(sandbox: Sandbox) -> None:
    code = """
    import os
    while True:
        try:
            os.fork()
        except BlockingIOError:
            os._exit(3)
    """
    execution = await run(sandbox, code)
    assert execution.failure is not None


async def test_processes_started_by_the_code_end_with_it(sandbox: Sandbox) -> None:
    code = """
    import os, time
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
    print("started")
    """
    execution = await run(sandbox, code)
    assert execution.output == "started\n"


async def test_memory_of_one_process_is_limited(sandbox: Sandbox) -> None:
    execution = await run(sandbox, "x = bytearray(1024 ** 3)")
    assert execution.failure is not None
    assert execution.failure.kind is FailureKind.LIMIT_EXCEEDED
    assert "MiB of memory" in execution.failure.message


async def test_memory_of_all_processes_together_is_limited(sandbox: Sandbox) -> None:
    code = """
    import os, time
    for _ in range(8):
        if os.fork() == 0:
            block = bytearray(100 * 1024 ** 2)
            time.sleep(600)
    time.sleep(600)
    """
    execution = await run(sandbox, code)
    assert execution.failure is not None
    assert execution.failure.kind is FailureKind.LIMIT_EXCEEDED


@pytest.mark.parametrize("folder", ["/workspace", "/tmp", "/dev/shm"])
async def test_disk_filler_is_stopped(sandbox: Sandbox, folder: str) -> None:
    code = f"""
    for number in range(1000):
        with open(f"{folder}/{{number}}", "wb") as file:
            file.write(bytes(4 * 1024 ** 2))
    """
    execution = await run(sandbox, code)
    assert execution.failure is not None
    assert execution.files == ()


async def test_workspace_of_many_empty_files_is_stopped(sandbox: Sandbox) -> None:
    code = """
    for number in range(60):
        open(str(number), "w").close()
    """
    execution = await run(sandbox, code)
    assert execution.failure is not None
    assert execution.failure.kind is FailureKind.LIMIT_EXCEEDED


async def test_closed_folders_are_removed_with_the_workspace(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    code = """
    import os
    os.makedirs("a/b")
    open("a/b/file", "w").close()
    os.chmod("a/b", 0)
    os.chmod("a", 0)
    """
    await run(sandbox, code)
    assert list((tmp_path / "workspaces").iterdir()) == []


@pytest.mark.parametrize(
    "path", ["/x", "/dev/x", "/packages/x", "/usr/lib/x", "/runner.py", "/proc/sys/kernel/hostname"]
)
async def test_everything_else_is_read_only(sandbox: Sandbox, path: str) -> None:
    execution = await run(sandbox, f"open({path!r}, 'w').write('x')")
    assert execution.failure is not None
    assert "Read-only file system" in execution.output or "Permission denied" in execution.output


async def test_the_kernel_takes_no_orders(sandbox: Sandbox) -> None:
    code = """
    import os
    settings = os.walk("/proc/sys")
    paths = [os.path.join(folder, name) for folder, _, names in settings for name in names]
    paths += ["/proc/sysrq-trigger", "/proc/timer_list", "/proc/kcore", "/proc/keys"]
    print(len(paths) > 100, [path for path in paths if os.access(path, os.W_OK)])
    """
    execution = await run(sandbox, code)
    assert execution.output == "True []\n"


async def test_infinite_output_is_cut(sandbox: Sandbox) -> None:
    execution = await run(sandbox, "while True: print('x' * 1000)")
    assert execution.failure is not None
    assert execution.failure.kind is FailureKind.OUTPUT_TOO_LARGE
    assert len(execution.output) == SMALL.output_bytes


async def test_infinite_loop_times_out(sandbox: Sandbox) -> None:
    execution = await run(sandbox, "while True: pass", replace(SMALL, wall_time_s=1))
    assert execution.failure is not None
    assert execution.failure.kind is FailureKind.TIMEOUT


async def test_ignoring_signals_does_not_help(sandbox: Sandbox) -> None:
    code = """
    import signal, time
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)
    """
    execution = await run(sandbox, code, replace(SMALL, wall_time_s=1))
    assert execution.failure is not None
    assert execution.failure.kind is FailureKind.TIMEOUT


async def test_signals_reach_no_process_outside(sandbox: Sandbox) -> None:
    code = f"""
    import os, signal
    for pid in [*range(3, 5000), {os.getpid()}, {os.getppid()}]:
        try:
            os.kill(pid, signal.SIGKILL)
            print("killed", pid)
        except ProcessLookupError:
            pass
    """
    execution = await run(sandbox, code)
    assert execution.output == ""
    assert psutil.pid_exists(os.getppid())


async def test_system_calls_through_ctypes_gain_no_privileges(sandbox: Sandbox) -> None:
    code = """
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
    def attempt(name, *arguments):
        result = getattr(libc, name)(*arguments)
        print(name, result, os.strerror(ctypes.get_errno()))
    attempt("unshare", CLONE_NEWUSER)
    attempt("unshare", CLONE_NEWNS)
    attempt("setuid", 0)
    attempt("mount", b"none", b"/tmp", b"tmpfs", 0, None)
    attempt("umount2", b"/code.py", 2)
    attempt("chroot", b"/tmp")
    attempt("ptrace", 16, 1, 0, 0)
    attempt("sethostname", b"x", 1)
    print([line for line in open("/proc/self/status") if line.startswith(("CapEff", "NoNewPrivs"))])
    """
    execution = await run(sandbox, code)
    attempts = execution.output.splitlines()
    assert [line.split()[1] for line in attempts[:-1]] == ["-1"] * 8
    assert attempts[-1] == "['CapEff:\\t0000000000000000\\n', 'NoNewPrivs:\\t1\\n']"


async def test_no_descriptor_of_the_service_is_inherited(sandbox: Sandbox) -> None:
    code = """
    import os
    print(sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                 if os.path.lexists(f"/proc/self/fd/{fd}")))
    """
    execution = await run(sandbox, code)
    assert execution.output.count("/dev/null") == 1
    assert execution.output.count("(deleted)") == 2
    assert execution.output.count("'") == 6


async def test_limits_cannot_be_raised(sandbox: Sandbox) -> None:
    code = """
    import resource
    resource.setrlimit(resource.RLIMIT_NPROC, (10_000, 10_000))
    """
    execution = await run(sandbox, code)
    assert execution.failure is not None
    assert "ValueError" in execution.output


@pytest.mark.parametrize("age_s", [0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.3])
async def test_cancelled_run_is_killed_whatever_its_age(
    sandbox: Sandbox, tmp_path: Path, age_s: float
) -> None:
    running = asyncio.create_task(run(sandbox, "import time; time.sleep(600)"))
    await asyncio.sleep(age_s)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert list((tmp_path / "workspaces").iterdir()) == []
