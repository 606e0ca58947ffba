import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from podium_cli.commands.status import memory_bytes
from podium_cli.target import Target
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.errors import UsageError
from podium_operations.local.engines import ADAPTER_RANK_MAX
from podium_operations.local.state import (
    AlreadyUp,
    Connection,
    NotUp,
    StateFolder,
    StateFolderUnusable,
)


def make_connection() -> Connection:
    return Connection("http://127.0.0.1:8080", "pod_a_b", "pod_c_d", os.getpid())


def test_a_second_holder_is_rejected_and_leaves_the_first_alone(tmp_path: Path) -> None:
    first = StateFolder(tmp_path).acquire()
    first.write_connection(make_connection())
    second = StateFolder(tmp_path)
    with pytest.raises(AlreadyUp):
        second.acquire()
    second.release()
    assert second.read_connection() == make_connection()
    assert second.holder() == os.getpid()


def test_a_released_folder_is_reported_as_free(tmp_path: Path) -> None:
    state = StateFolder(tmp_path).acquire()
    state.write_connection(make_connection())
    state.release()
    assert state.holder() is None
    with pytest.raises(NotUp):
        state.read_connection()
    StateFolder(tmp_path).acquire().release()


def test_secrets_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    state = StateFolder(tmp_path).acquire()
    state.write_connection(make_connection())
    assert stat.S_IMODE(state.connection_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.keys.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made_is_named_with_its_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StateFolderUnusable) as rejected:
        StateFolder(tmp_path / "file" / "state").acquire()
    assert "--state-dir" in rejected.value.fix


def test_the_command_line_goes_before_what_runs_here(tmp_path: Path) -> None:
    StateFolder(tmp_path).acquire().write_connection(make_connection())
    assert Target(None, None, tmp_path).address() == ("http://127.0.0.1:8080", "pod_a_b")
    assert Target(None, None, tmp_path).address(admin=True)[1] == "pod_c_d"
    assert Target(None, "pod_x_y", tmp_path).address()[1] == "pod_x_y"
    assert Target("http://far/", "pod_x_y", tmp_path).address() == ("http://far", "pod_x_y")


def test_a_foreign_platform_is_never_sent_the_key_of_this_one(tmp_path: Path) -> None:
    StateFolder(tmp_path).acquire().write_connection(make_connection())
    with pytest.raises(UsageError, match="no API key"):
        Target("http://far", None, tmp_path).address()


def test_a_folder_that_others_could_enter_is_closed_to_them(tmp_path: Path) -> None:
    opened = tmp_path / "state"
    opened.mkdir()
    opened.chmod(0o755)
    StateFolder(opened).acquire().release()
    assert [stat.S_IMODE(each.stat().st_mode) for each in (opened, opened / "keys")] == [0o700] * 2


def test_a_child_that_ends_meanwhile_does_not_make_its_parent_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        gone = psutil.Process(child.pid)
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [gone])
    assert memory_bytes(psutil.Process()) > 0
    with pytest.raises(psutil.NoSuchProcess):
        memory_bytes(gone)


def test_an_adapter_of_the_bundled_policys_rank_can_be_served() -> None:
    [config] = (bundled_folder() / "policy").glob("*/adapter_config.json")
    assert json.loads(config.read_text(encoding="utf-8"))["r"] <= ADAPTER_RANK_MAX
