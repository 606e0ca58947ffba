"""`podium status` does not call a process dead for what its children do."""

import subprocess
import sys

import psutil
import pytest

from podium_cli.commands.status import memory_bytes


def test_a_child_that_ends_meanwhile_does_not_make_its_parent_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        gone = psutil.Process(child.pid)
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [gone])
    assert memory_bytes(psutil.Process()) > 0
    with pytest.raises(psutil.NoSuchProcess):
        memory_bytes(gone)
