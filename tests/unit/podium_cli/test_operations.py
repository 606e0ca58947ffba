"""Programs beside a platform: its state folder, its keys, its bootstrap, an erasure."""

import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from typer.testing import CliRunner, Result

from callers import make_key_pair
from podium_cli.app import app
from podium_cli.commands.status import memory_bytes
from podium_cli.target import Target
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.errors import UsageError
from podium_kit.client.rejections import Rejected
from podium_kit.rpc.errors import Unauthenticated
from podium_kit.rpc.identity import Identity, Scope
from podium_kit.rpc.tokens import TokenSigner, TokenVerifier
from podium_operations.bootstrap.making import retry_while_away
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


FILES = {
    "verify-keys.json",
    "gateway.pem",
    "episodes.pem",
    "episode-worker.pem",
    "tool-adapters.pem",
    "ledger-anchor.pem",
    "master-keys",
    "payload-keys",
}
ADMIN = Identity("acme", "ada", frozenset({Scope.PLATFORM_ADMIN, Scope.EPISODES_RUN}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "identity"
    outcome = CliRunner().invoke(app, ["identity", str(made)])
    assert outcome.exit_code == 0, outcome.output
    assert f"--from-file={made}" in "".join(outcome.output.split("\n"))
    return made


def test_the_folder_is_the_secret_and_only_its_owner_reads_it(folder: Path) -> None:
    assert {file.name for file in folder.iterdir()} == FILES
    assert {file.stat().st_mode & 0o077 for file in (folder, *folder.iterdir())} == {0}


def test_a_service_that_signs_for_itself_cannot_make_itself_an_administrator(folder: Path) -> None:
    keys = json.loads((folder / "verify-keys.json").read_text())
    public = {who: key if isinstance(key, str) else key["public_key"] for who, key in keys.items()}
    limits = {who: key["scopes"] for who, key in keys.items() if isinstance(key, dict)}
    verifier = TokenVerifier(public, limits)
    for signer, allowed in (
        ("gateway", ADMIN.scopes),
        ("episodes", {Scope.EPISODES_RUN}),
        ("episode-worker", {Scope.EPISODES_RUN}),
        ("tool-adapters", set()),
    ):
        token = TokenSigner((folder / f"{signer}.pem").read_text(), signer).sign(ADMIN)
        assert verifier.verify(token).scopes == allowed, signer


def test_the_ledgers_key_opens_no_service(folder: Path) -> None:
    keys = json.loads((folder / "verify-keys.json").read_text())
    pem = (folder / "ledger-anchor.pem").read_text()
    load_pem_private_key(pem.encode(), password=None)
    verifier = TokenVerifier({"gateway": keys["gateway"]})
    with pytest.raises(Unauthenticated):
        verifier.verify(TokenSigner(pem, "gateway").sign(ADMIN))


def test_again_it_keeps_every_key(folder: Path) -> None:
    before = {file.name: file.read_text() for file in folder.iterdir()}
    assert CliRunner().invoke(app, ["identity", str(folder)]).exit_code == 0
    assert {file.name: file.read_text() for file in folder.iterdir()} == before


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = CliRunner().invoke(app, ["identity", str(tmp_path / "file")])
    assert outcome.exit_code == 2
    assert "name another folder" in outcome.output


def rejected(*, temporary: bool) -> Rejected:
    return Rejected("tool-adapters does not answer", "wait", "", {}, temporary=temporary)


async def test_a_service_that_comes_later_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    failures = [rejected(temporary=True)]

    async def fill() -> list[str]:
        if failures:
            raise failures.pop()
        return ["the library"]

    with caplog.at_level(logging.INFO):
        assert await retry_while_away(fill) == ["the library"]
    assert "tool-adapters does not answer" in caplog.text


async def test_what_is_rejected_for_good_is_not_tried_again() -> None:
    tries = []

    async def fill() -> list[str]:
        tries.append(1)
        raise rejected(temporary=False)

    with pytest.raises(Rejected):
        await retry_while_away(fill)
    assert len(tries) == 1


def erase(folder: Path, receipt: Path) -> Result:
    key = folder / "key.pem"
    key.write_text(make_key_pair().private_pem)
    options = ["--state-dir", str(folder / "state"), "--key", str(key), "--receipt", str(receipt)]
    return CliRunner().invoke(app, ["erase", "acme", "--yes", *options])


def test_an_earlier_receipt_is_not_overwritten(tmp_path: Path) -> None:
    receipt = tmp_path / "receipt.json"
    receipt.write_text("of another tenant")
    outcome = erase(tmp_path, receipt)
    assert outcome.exit_code == 2
    assert "--receipt" in outcome.stderr
    assert receipt.read_text() == "of another tenant"


@pytest.mark.parametrize("place", ["no such folder/receipt.json", "."])
def test_a_receipt_that_cannot_be_written_ends_it_at_once(tmp_path: Path, place: str) -> None:
    outcome = erase(tmp_path, tmp_path / place)
    assert outcome.exit_code == 2
    assert "cannot write" in outcome.stderr


def test_a_receipt_is_left_only_by_what_was_deleted(tmp_path: Path) -> None:
    assert "holds no platform" in erase(tmp_path, tmp_path / "receipt.json").stderr
    assert {file.name for file in tmp_path.iterdir()} == {"key.pem"}
