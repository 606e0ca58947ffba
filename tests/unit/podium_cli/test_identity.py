import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from typer.testing import CliRunner

from podium_cli.app import app
from podium_kit.rpc.errors import Unauthenticated
from podium_kit.rpc.identity import Identity, Scope
from podium_kit.rpc.tokens import TokenSigner, TokenVerifier

FILES = {
    "verify-keys.json",
    "gateway.pem",
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
