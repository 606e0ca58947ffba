"""The command in a process that has imported it: a fork for each call, with its own environment.

    ended = warm_command()("tools", "list", environment={...})

An import of the command takes longer than most of what tests ask of it. A call is a process as
ever: it has the environment, streams and exit status that a shell would give it.
"""

import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import podium_cli
from podium_cli.ending import status_of

TIMEOUT_S = 240
# Imported by httpx and others where they are first used.
ON_USE = ("_strptime", "anyio._backends._asyncio", "certifi", "httpcore")


class WarmCommand:
    """Starts the process that forks; it ends with this one, which holds its standard input."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="warm-command-")
        self._address = str(Path(self._folder.name) / "socket")
        self._process = subprocess.Popen(
            [sys.executable, __file__, self._address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def __call__(
        self, *arguments: str, environment: dict[str, str], stdin: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        call = {"arguments": arguments, "environment": environment, "folder": str(Path.cwd())}
        with ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(4)]
            for file, text in zip(files, (stdin, json.dumps(call)), strict=False):
                file.write(text)
                file.seek(0)
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(TIMEOUT_S)
            connection.connect(self._address)
            socket.send_fds(connection, [b"."], [file.fileno() for file in files])
            status = connection.recv(16)
            _, _, *outputs = files
            for file in outputs:
                file.seek(0)
            out, err = (file.read() for file in outputs)
        # A call that a signal ended has sent none.
        return subprocess.CompletedProcess(arguments, int(status or -1), out, err)


@cache
def warm_command() -> WarmCommand:
    return WarmCommand()


def serve(address: str) -> None:
    for module in pkgutil.walk_packages(podium_cli.__path__, "podium_cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ON_USE:
        importlib.import_module(name)
    # No one waits for a fork: it sends its status itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            readable, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in readable:
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                answer(connection)
            connection.close()


def answer(connection: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, (given, described, out, err), _, _ = socket.recv_fds(connection, 1, 4)
    for number, handle in enumerate((given, out, err)):
        os.dup2(handle, number)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode) for number, mode in enumerate(("r", "w", "w"))
    )
    with os.fdopen(described) as file:
        call = json.load(file)
    os.environ.clear()
    os.environ |= call["environment"]
    os.chdir(call["folder"])
    sys.argv = ["podium", *call["arguments"]]
    status = status_of(call["arguments"])
    connection.send(str(status).encode())
    os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1])
