import subprocess
import sys
from itertools import count

import pytest

from podium_kit.embedded import ports

ASK = """
from itertools import count
from podium_kit.embedded import ports
ports._TURN = count({turn})
print(ports.free_port(), flush=True)
input()
"""


def test_a_port_that_is_not_bound_yet_is_given_to_no_other_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn = next(ports._TURN)
    with subprocess.Popen(
        [sys.executable, "-c", ASK.format(turn=turn)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        monkeypatch.setattr(ports, "_TURN", count(turn))
        ours = ports.free_port()
        assert ours > theirs
        other.communicate("\n")
    # A claim ends with its process, and the oldest ones of a process make room.
    monkeypatch.setattr(ports, "_TURN", count(turn))
    assert ports.free_port() == theirs
    assert len(ports.free_ports(2 * ports.CLAIMS_MAX)) == 2 * ports.CLAIMS_MAX
    monkeypatch.setattr(ports, "_TURN", count(turn))
    assert ports.free_port() == theirs
