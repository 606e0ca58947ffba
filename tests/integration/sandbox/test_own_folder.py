import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tool_adapters.sandbox import Limits
from tool_adapters.sandbox.local_runner import LocalRunner
from tool_adapters.sandbox.own_folder import PREFIX, YOUNG_S, OwnFolder
from tool_adapters.sandbox.sandbox import Job

OWNER = """
import time
from tool_adapters.sandbox.own_folder import OwnFolder
print(OwnFolder().path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def aged(folder: Path) -> Path:
    before = time.time() - YOUNG_S - 1
    os.utime(folder, (before, before))
    return folder


def test_the_folder_of_a_killed_process_goes_and_of_a_living_one_stays() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert owner.stdout is not None
    folder = aged(Path(owner.stdout.readline().strip()))
    (folder / "fonts.json").write_text("{}")
    aged(folder)
    OwnFolder().close()
    assert folder.is_dir()
    owner.kill()
    owner.communicate()
    OwnFolder().close()
    assert not folder.exists()


async def test_code_runs_on_when_a_cleaner_takes_the_folder() -> None:
    runner = LocalRunner(warm=1)
    try:
        runner.warm_up()
        while not (found := [*runner_folders()]) or not any(found[0].iterdir()):
            await asyncio.sleep(0.02)
        shutil.rmtree(found[0])
        # The sandbox that is ready already, and one that starts without the folder.
        for _ in range(2):
            ran = await runner.run(Job("6 * 7", False, Limits()))
            assert ran.execution.stdout == "42\n"
        runner.warm_up()
        while not (again := [*runner_folders()]) or not any(again[0].iterdir()):
            await asyncio.sleep(0.02)
    finally:
        await runner.close()


def runner_folders() -> Iterator[Path]:
    return Path(tempfile.gettempdir()).glob(f"{PREFIX}*")


def test_a_folder_that_is_just_being_made_is_left_alone(temporary: Path) -> None:
    young = temporary / f"{PREFIX}young"
    young.mkdir()
    OwnFolder().close()
    assert young.is_dir()
    aged(young)
    OwnFolder().close()
    assert list(temporary.iterdir()) == []
