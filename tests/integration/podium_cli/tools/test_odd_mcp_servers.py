"""A list of an MCP server of which a tool is wrong: it is named, and the others are registered."""

import shutil
import sys
from pathlib import Path

import pytest
import yaml

from integration.podium_cli.conftest import CommandLine

PROGRAM = Path(__file__).parent / "odd_mcp_program.py"


@pytest.fixture
def odd(podium: CommandLine, tmp_path: Path) -> str:
    """A server that the operator defined."""
    # The sandbox's user owns nothing.
    tmp_path.chmod(0o755)
    shutil.copy(PROGRAM, tmp_path)
    argv = [sys.executable, str(tmp_path / PROGRAM.name)]
    definition = {"argv": argv, "folders": [str(tmp_path)]}
    (podium.state_dir / "mcp-servers" / "odd.yaml").write_text(yaml.safe_dump(definition))
    return "odd"


def test_what_is_right_is_imported_and_what_is_left_out_is_named(
    podium: CommandLine, odd: str
) -> None:
    """Public reports 20, 22 and 27."""
    imported = podium("tools", "import-mcp", "--shared", "--prefix", "odd_", odd)
    assert imported.returncode == 1
    assert "odd_send v1 registered" in imported.stdout
    said = " ".join(imported.stderr.split())
    for words in (
        "left out: broken: inputSchema",
        "left out: tools[2]: name: Field required",
        "names its page 'again' twice",
        "$.properties.mail.pattern is left to the tool's server",
        "2 of 3 tools are left out",
    ):
        assert words in said
    again = podium("tools", "import-mcp", "--shared", "--prefix", "odd_", odd, "--skip-wrong")
    assert (again.returncode, "odd_send v1 unchanged" in again.stdout) == (0, True)
    shown = " ".join(podium("tools", "show", "odd_send").stdout.split())
    assert "$.properties.mail.pattern is left to the tool's server" in shown
    tried = podium("tools", "try", "odd_send", '{"mail": "xa@b"}')
    assert "sent" in tried.stdout and "type video a:b" in tried.stdout


def test_following_says_what_was_taken_and_what_was_not(podium: CommandLine, odd: str) -> None:
    """Public report 28."""
    followed = podium("tools", "follow-mcp", "--shared", "--prefix", "oddly_", odd)
    said = " ".join(followed.stdout.split())
    assert "oddly_ is followed: 1 of 3 tools" in said
    assert "broken is left out: inputSchema" in said
    assert "broken is left out" in " ".join(podium("tools", "followed").stdout.split())
    assert podium("tools", "unfollow-mcp", "--shared", "oddly_").returncode == 0


def test_headers_are_written_as_people_write_them(podium: CommandLine, odd: str) -> None:
    """Public report 30."""
    wrong = podium("tools", "import-mcp", "--secret-header", "X-API-Key", "https://example.com/mcp")
    assert wrong.returncode == 2 and "'X-API-Key: my-key'" in wrong.stderr
    none = podium("tools", "import-mcp", "--header", "X-Region: eu", odd)
    assert none.returncode == 2 and "takes no headers" in none.stderr
