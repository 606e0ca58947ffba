import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from podium_cli.ending import NOBODY_READS


def podium(*arguments: str, stdout: int = subprocess.PIPE) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "podium_cli", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["tools", "--help"]])
def test_a_closed_pipe_ends_it_quietly(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = podium(*arguments, stdout=writing)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (NOBODY_READS, "")


def test_a_full_disk_is_named() -> None:
    with Path("/dev/full").open("w") as full:
        ended = podium("--version", stdout=full.fileno())
    assert ended.returncode == 1
    assert ended.stderr == "error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("arguments", "status", "cause"),
    [
        (["tools", "list"], 1, "podium is not up"),
        (["tools", "lst"], 2, "Did you mean 'list'?"),
        (["tools", "apply"], 2, "--file"),
        (["spend", "--by", "colour"], 2, "'colour'"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_with_json_an_error_is_json(
    tmp_path: Path, arguments: list[str], status: int, cause: str
) -> None:
    known = [] if status == 2 else ["--state-dir", str(tmp_path)]
    if arguments[0] == "spend":
        known = ["--url", "http://127.0.0.1:1", "--api-key", "k"]
    ended = podium(*arguments, *known, "--json")
    assert (ended.returncode, ended.stdout) == (status, "")
    error = json.loads(ended.stderr)["error"]
    assert cause in error["cause"]
    assert error["status"] == status


def test_a_fault_is_two_lines_and_its_trace_a_file(tmp_path: Path) -> None:
    names = ("gateway_url", "api_key", "admin_key", "pid")
    connection = dict.fromkeys(names, 5)
    (tmp_path / "connection.json").write_text(json.dumps(connection))
    ended = podium("tools", "list", "--state-dir", str(tmp_path))
    assert ended.returncode == 1
    cause, fix = ended.stderr.splitlines()
    assert cause.startswith("error: ") and "this is a fault of podium" in fix
    trace = Path(fix.rsplit(" ", 1)[1])
    assert "Traceback" in trace.read_text()
    trace.unlink()
