"""Honest code in the sandbox: values, files, figures and state come back."""

import os
from pathlib import Path

import pytest

from failures import FailureKind
from tool_adapters.sandbox import IsolationUnavailable, Limits, Sandbox, Workspaces

LIMITS = Limits()


@pytest.fixture
def runs(tmp_path: Path) -> Sandbox:
    return Sandbox(Workspaces(tmp_path / "workspaces"))


async def test_value_of_the_last_line_is_printed(runs: Sandbox) -> None:
    execution = await runs.run("n = 6\nprint('n is', n)\nn * 7", LIMITS)
    assert (execution.output, execution.failure) == ("n is 6\n42\n", None)


async def test_error_of_the_code_comes_back_with_its_traceback(runs: Sandbox) -> None:
    execution = await runs.run("def f():\n    return 1 / 0\nf()", LIMITS)
    assert execution.failure is not None
    assert execution.failure.kind is FailureKind.TOOL_ERROR
    assert 'File "<code>", line 2, in f' in execution.failure.message
    assert "runner.py" not in execution.failure.message


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


async def test_our_own_packages_are_not(runs: Sandbox) -> None:
    for name in ("grpc", "tool_adapters", "pip", "sqlalchemy"):
        assert "ModuleNotFoundError" in (await runs.run(f"import {name}", LIMITS)).output


async def test_files_and_figures_come_back(runs: Sandbox) -> None:
    code = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3])
open("table.csv", "w").write("a,b")
"""
    execution = await runs.run(code, LIMITS)
    found = {file.name: (file.media_type, file.data[:4]) for file in execution.files}
    assert found == {"figure-1.png": ("image/png", b"\x89PNG"), "table.csv": ("text/csv", b"a,b")}


async def test_nothing_is_left_of_a_stateless_run(runs: Sandbox) -> None:
    await runs.run("open('kept.txt', 'w').write('x'); y = 1", LIMITS)
    assert "FileNotFoundError" in (await runs.run("open('kept.txt')", LIMITS)).output


async def test_variables_functions_and_files_last_for_an_episode(runs: Sandbox) -> None:
    code = """
import math
lock = open("kept.txt", "w")
lock.write("7"); lock.flush()
def area(radius):
    return math.pi * radius ** 2
radius = 2
"""
    await runs.run_in_episode(code, LIMITS, "acme", "e1")
    second = await runs.run_in_episode(
        "print(area(radius), open('kept.txt').read())", LIMITS, "acme", "e1"
    )
    assert second.output == "12.566370614359172 7\n"
    # Only what this run changed is returned.
    assert second.files == ()


@pytest.mark.parametrize(("tenant", "episode_id"), [("acme", "e2"), ("globex", "e1")])
async def test_state_is_not_shared(runs: Sandbox, tenant: str, episode_id: str) -> None:
    await runs.run_in_episode("secret = 1", LIMITS, "acme", "e1")
    other = await runs.run_in_episode("secret", LIMITS, tenant, episode_id)
    assert "NameError" in other.output


async def test_closed_episode_starts_anew(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path)
    runs = Sandbox(workspaces)
    await runs.run_in_episode("x = 1", LIMITS, "acme", "../../escape")
    workspaces.close_episode("acme", "../../escape")
    assert os.listdir(tmp_path) == []  # noqa: PTH208 (no blocking path methods in a coroutine)
    assert "NameError" in (await runs.run_in_episode("x", LIMITS, "acme", "../../escape")).output


async def test_isolation_is_proven_on_this_machine(runs: Sandbox) -> None:
    await runs.require_isolation()


async def test_machine_that_cannot_isolate_is_refused_with_the_mend(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: Creating new namespace failed' >&2\nexit 1\n")
    broken.chmod(0o755)
    runs = Sandbox(Workspaces(tmp_path / "workspaces"), lambda: broken)
    with pytest.raises(IsolationUnavailable, match=r"namespace failed.*max_user_namespaces"):
        await runs.require_isolation()
