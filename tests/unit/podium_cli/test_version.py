"""`podium --version` says which distribution is installed."""

from importlib.metadata import version

from typer.testing import CliRunner

from podium_cli import DISTRIBUTION
from podium_cli.app import app


def test_the_version_is_the_distributions() -> None:
    ended = CliRunner().invoke(app, ["--version"])
    assert (ended.exit_code, ended.stdout) == (0, f"podium {version(DISTRIBUTION)}\n")
