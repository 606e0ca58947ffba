"""Pytest plugin: the platform's own programs start as forks of a process that has imported them.

An import takes longer than most of what tests ask of a command, and half of a service's start. A
test starts a program by `subprocess` as ever, and gets a process as ever: its own child, with the
environment, streams, session, command line and exit status that it would have had.
"""

import ctypes
import gc
import importlib
import inspect
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

PROGRAMS = (
    *("cost_ledger", "episodes", "episodes.worker", "gateway", "orchestrator_inference"),
    *("podium_cli", "tool_adapters", "tool_registry"),
)
# Imported by programs where they are first used.
ON_USE = (
    *("_strptime", "alembic.command", "anyio._backends._asyncio", "certifi", "httpcore"),
    *("podium_kit.stream.clients", "uvicorn.protocols.http.httptools_impl"),
)
# Arguments of the process that forks, which its forks write theirs over.
PADDING = "-" * 4096
# A longer command line is that of an ordinary process.
ORDER_BYTES_MAX = 192 * 1024
START_TIMEOUT_S = 120.0
# Fields of /proc/self/stat after the name.
ARGUMENTS_START, ARGUMENTS_END = 45, 46
PR_SET_PDEATHSIG, SIGKILL = 1, 9

EXECUTE = subprocess.Popen._execute_child  # type: ignore[attr-defined]
PARAMETERS = inspect.signature(EXECUTE)


def program_of(arguments: Any) -> str:
    """Returns the module that `python -m` is asked to run if it is one of ours."""
    words = [str(each) for each in arguments] if isinstance(arguments, list | tuple) else []
    if words[1:2] == ["-P"]:
        del words[1]
    is_ours = words[:2] == [sys.executable, "-m"] and words[2:3] and words[2] in PROGRAMS
    return words[2] if is_ours else ""


class WarmPrograms:
    """The process that forks. It ends with this one, which has the other end of its socket."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(START_TIMEOUT_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), PADDING],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        assert self._socket.recv(16) == b"ready"

    def start(self, order: bytes, streams: Sequence[int]) -> int:
        """Returns the id of a new child of this process."""
        with self._lock:
            socket.send_fds(self._socket, [order], streams)
            return int(self._socket.recv(16))


@cache
def warm_programs() -> WarmPrograms:
    return WarmPrograms()


def order_of(given: dict[str, Any]) -> bytes:
    """Describes a fork, by the parameters of a process; empty for programs that are not ours."""
    program, environment = program_of(given["args"]), given["env"]
    if not program or given["shell"] or given["pass_fds"] or given["uid"] is not None:
        return b""
    order = {
        "program": program,
        "line": [str(each) for each in given["args"]],
        "environment": dict(os.environ if environment is None else environment),
        "folder": os.fspath(given["cwd"] or Path.cwd()),
        "begins_session": given["start_new_session"],
        "parent": os.getpid(),
    }
    return json.dumps(order).encode()


def execute_child(popen: Any, *values: Any) -> None:
    """Starts one of our programs as a fork, and any other as `subprocess` does."""
    given = PARAMETERS.bind(popen, *values).arguments
    order = order_of(given)
    if not 0 < len(order) <= ORDER_BYTES_MAX:
        EXECUTE(popen, *values)
        return
    streams = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
    streams = [own if stream == -1 else stream for own, stream in enumerate(streams)]
    popen.pid = warm_programs().start(order, streams)
    popen._child_created = True
    pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
    popen._close_pipe_fds(*(given[name] for name in pipes))


# Before another plugin wraps `Popen`. Other systems adopt no grandchildren.
if __name__ != "__main__" and sys.platform == "linux":
    subprocess.Popen._execute_child = execute_child  # type: ignore[attr-defined]


def serve(connection: socket.socket) -> dict[str, Any]:
    """Forks for every order, and returns it in the fork; ends with the process that orders."""
    connection.send(b"ready")
    while True:
        content, streams, _, _ = socket.recv_fds(connection, ORDER_BYTES_MAX, 3)
        if not content:
            sys.exit()
        between = os.fork()
        if between:
            for stream in streams:
                os.close(stream)
            os.waitpid(between, 0)
            continue
        # The test's process adopts a child of one that has ended.
        if os.fork():
            os._exit(0)
        order: dict[str, Any] = json.loads(content)
        while os.getppid() != order["parent"]:
            time.sleep(0.0005)
        become(order, streams)
        # Now that it is found under its own command line.
        connection.send(str(os.getpid()).encode())
        connection.close()
        return order


def become(order: dict[str, Any], streams: Sequence[int]) -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL)
    if order["begins_session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    os.environ.clear()
    os.environ |= order["environment"]
    os.chdir(order["folder"])
    sys.argv = order["line"][order["line"].index("-m") + 1 :]
    fields = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    start, end = (int(fields[place]) for place in (ARGUMENTS_START, ARGUMENTS_END))
    line = "\0".join(order["line"]).encode()[: end - start - 1]
    ctypes.memmove(start, line.ljust(end - start, b"\0"), end - start)


def main() -> None:
    command = importlib.import_module("podium_cli")
    modules = [each.name for each in pkgutil.walk_packages(command.__path__, "podium_cli.")]
    servers = [
        each if "." in each else f"{each}.server" for each in PROGRAMS if each != "podium_cli"
    ]
    for module in (*servers, *modules, *ON_USE):
        if not module.endswith("__main__"):
            importlib.import_module(module)
    gc.freeze()
    order = serve(socket.socket(fileno=int(sys.argv[1])))
    # A module that is run as a program is another one than the one that was imported.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
    runpy.run_module(order["program"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
