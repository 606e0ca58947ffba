"""What is written at the end of long work has its place before the work begins."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from podium_cli.app import app

# A process that gets this far has begun.
NOWHERE = ["--url", "http://127.0.0.1:1", "--api-key", "key"]
ROLLOUT = ["train", "rollout", "--count", "1", "--evaluation"]


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (ROLLOUT, "."),
        (ROLLOUT, "no such folder/evaluation.jsonl"),
        (["demo", "--report"], "."),
        (["demo", "--report"], "file/report.html"),
    ],
)
def test_a_place_that_is_none_is_rejected_first(
    tmp_path: Path, command: list[str], place: str
) -> None:
    (tmp_path / "file").write_text("")
    ended = CliRunner().invoke(app, [*command, str(tmp_path / place), *NOWHERE])
    assert ended.exit_code == 2, ended.stderr
    assert "cannot" in ended.stderr
