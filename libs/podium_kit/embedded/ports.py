import secrets
import socket
from collections import deque
from contextlib import closing
from itertools import count

import psutil

from podium_kit.embedded.errors import NoFreePort, PortTaken

LOOPBACK = "127.0.0.1"
PORTS = range(15_000, 30_000)
_TURN = count(secrets.randbelow(len(PORTS)))
# Sockets in Linux's abstract namespace, named after ports. The kernel frees them with the process.
_CLAIMS: deque[socket.socket] = deque()
CLAIMS_MAX = 100


def free_ports(wanted: int) -> list[int]:
    """Distinct free ports; bind them before this process has asked for CLAIMS_MAX others.

    Systems give outgoing connections ports above these. Each process goes through them from a
    start of its own, and claims what it finds, as a server may bind it only seconds later.
    """
    found: list[int] = []
    for _ in range(len(PORTS)):
        port = PORTS[next(_TURN) % len(PORTS)]
        if _is_free(port) and _claim(port):
            found.append(port)
        if len(found) == wanted:
            return found
    raise NoFreePort(PORTS)


def free_port() -> int:
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _claim(port: int) -> bool:
    """Claims the port; returns False where another process, or this one, has a claim on it."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0podium-port-{port}")
    except OSError:
        claim.close()
        return False
    _CLAIMS.append(claim)
    if len(_CLAIMS) > CLAIMS_MAX:
        _CLAIMS.popleft().close()
    return True


def require_free(port: int) -> None:
    """Raises PortTaken, naming the holder, when a process listens on the port."""
    with closing(socket.socket()) as probe:
        # As servers do: connections of an earlier server in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise PortTaken(port, _holder(port)) from error


def accepts_connections(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _holder(port: int) -> str:
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return "another process"
    for connection in connections:
        listens = connection.status == psutil.CONN_LISTEN
        if listens and connection.laddr and connection.laddr.port == port:
            return _describe(connection.pid)
    return "another process"


def _describe(pid: int | None) -> str:
    """The system hides the pid of other users' sockets."""
    if pid is None:
        return "a process of another user"
    try:
        return f"{psutil.Process(pid).name()} (process {pid})"
    except psutil.NoSuchProcess:
        return f"process {pid}"
