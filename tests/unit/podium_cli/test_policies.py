"""`podium policies apply` before the platform is asked."""

from pathlib import Path

from typer.testing import CliRunner

from podium_cli.app import app


def test_of_one_name_there_is_one_policy(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: frugal")
    (tmp_path / "b.yaml").write_text("name: careful\n---\nname: frugal")
    nowhere = ["--url", "http://127.0.0.1:1", "--api-key", "key"]
    rejected = CliRunner().invoke(app, ["policies", "apply", "-f", str(tmp_path), *nowhere])
    assert rejected.exit_code == 2
    said = "".join(rejected.stderr.split())
    assert "2policiesarenamedfrugal" in said
    assert "a.yaml" in said and "b.yaml" in said
