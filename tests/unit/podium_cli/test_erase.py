from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from callers import make_key_pair
from podium_cli.app import app


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
