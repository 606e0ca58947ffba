"""Programs of environments: where they are, and their processes."""

import asyncio
import itertools
import json
import os
import re
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from podium_evaluation.environments.lines import PROTOCOL, Values
from podium_kit.client.errors import UsageError, UserError

FOLDER_VARIABLE = "PODIUM_ENVIRONMENTS"
PROGRAM = "run"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
LINE_BYTES_MAX = 64 * 1024 * 1024
SUITE_TIMEOUT_S = 600
# With what its models take.
REQUEST_TIMEOUT_S = 3600
# The end of what a program printed, which names the cause of its death.
PRINTED_CHARACTERS_MAX = 2000
# No key of the worker is a benchmark's to see.
PASSED_ON = ("PATH", "HOME", "TMPDIR", "LANG")

Asked = Callable[[str, Sequence[Mapping[str, Any]]], Awaitable[str]]


class EnvironmentFailed(UserError):
    """The program reports an error, or a model that it asked gave no answer."""


class EnvironmentLost(EnvironmentFailed):
    """The program ended; another process can continue by the record."""


def environments_folder() -> Path:
    """$PODIUM_ENVIRONMENTS, or podium's folder under the XDG data folder."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "podium" / "environments"


def program_of(name: str) -> Path:
    """The program of an environment. Raises UsageError."""
    program = environments_folder() / name / PROGRAM
    if not NAME.fullmatch(name) or not os.access(program, os.X_OK):
        raise UsageError(
            f"the environment {name!r} is not installed here: there is no program {program}",
            f"`podium eval setup {name}` installs it, or set {FOLDER_VARIABLE} to its folder",
        )
    return program


def ask_for_suite(name: str, options: Values) -> Values:
    """The tasks of an environment and the key of its suite. Raises UsageError."""
    request = json.dumps({"id": 1, "do": "suite", "options": options}) + "\n"
    program = program_of(name)
    try:
        done = subprocess.run(  # noqa: S603 the user's own folder
            (str(program),),
            input=request,
            capture_output=True,
            text=True,
            timeout=SUITE_TIMEOUT_S,
            check=False,
            env=_variables(),
        )
        reply = json.loads(done.stdout or "{}")
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{program} cannot be asked: {error}", "install it anew") from error
    if "error" in reply:
        raise UsageError(f"{name}: {reply['error']}", "see docs/evaluation.md")
    if "result" not in reply:
        printed = done.stderr.strip()[-PRINTED_CHARACTERS_MAX:]
        raise UsageError(f"{program} gave no answer: {printed}", "install it anew")
    return _of_this_protocol(name, reply["result"])


def _of_this_protocol(name: str, reply: Values) -> Values:
    if reply.get("protocol") != PROTOCOL:
        raise UsageError(
            f"the program of {name} is of another version", f"`podium eval setup {name}` renews it"
        )
    return reply


def _variables() -> dict[str, str]:
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


@dataclass(frozen=True)
class Session:
    """A conversation with a program. Its requests raise EnvironmentFailed."""

    name: str
    id: str
    _process: "EnvironmentProcess"

    async def open(self, domain: str, task: Values) -> Values:
        opened = await self._process.request(self.id, "open", domain=domain, task=task)
        return _of_this_protocol(self.name, opened)

    async def call(self, name: str, arguments: Values) -> Values:
        return await self._process.request(self.id, "call", name=name, arguments=arguments)

    async def judge(self, answer: str) -> Values:
        return await self._process.request(self.id, "judge", answer=answer)


class Environments:
    """One process for each environment, whichever number of conversations it has."""

    def __init__(self) -> None:
        self._processes: dict[str, EnvironmentProcess] = {}
        self._starting = asyncio.Lock()

    @asynccontextmanager
    async def session(self, name: str, id: str, asked: Asked) -> AsyncIterator[Session]:
        """A session whose program may ask models. Raises UsageError."""
        async with self._starting:
            process = self._processes.get(name)
            if process is None or process.ended:
                process = await EnvironmentProcess.start(program_of(name))
                self._processes[name] = process
        process.asked[id] = asked
        try:
            yield Session(name, id, process)
        finally:
            del process.asked[id]
            process.close(id)

    async def close(self) -> None:
        for process in self._processes.values():
            await process.stop()


class EnvironmentProcess:
    def __init__(self, process: asyncio.subprocess.Process, printed: IO[bytes]) -> None:
        self.asked: dict[str, Asked] = {}
        self._process = process
        self._printed = printed
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Values]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, program: Path) -> "EnvironmentProcess":
        printed = tempfile.TemporaryFile()  # noqa: SIM115 it lives as long as the process
        try:
            process = await asyncio.create_subprocess_exec(
                str(program),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=printed,
                limit=LINE_BYTES_MAX,
                env=_variables(),
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(f"{program} cannot be started: {error}", "install it anew") from error
        return cls(process, printed)

    @property
    def ended(self) -> bool:
        return self._reading.done()

    async def request(self, session: str, do: str, **fields: Any) -> Values:
        number = next(self._numbers)
        future = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._write({"id": number, "session": session, "do": do, **fields})
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                reply: Values = await future
        except TimeoutError as error:
            raise EnvironmentFailed(f"the environment did not {do} in time") from error
        finally:
            del self._waiting[number]
        if "error" in reply:
            raise EnvironmentFailed(f"the environment failed: {reply['error']}", "")
        found: Values = reply["result"]
        return found

    def close(self, session: str) -> None:
        """Ends a session; its reply is of no use."""
        with suppress(EnvironmentLost):
            self._write({"id": next(self._numbers), "session": session, "do": "close"})

    async def stop(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await asyncio.wait({self._reading})

    def _write(self, message: Values) -> None:
        if self.ended or self._process.stdin is None:
            raise self._lost()
        self._process.stdin.write(f"{json.dumps(message)}\n".encode())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                self._take(json.loads(line))
        except ValueError:
            # What is no protocol, or a line without an end, cannot be continued.
            with suppress(ProcessLookupError):
                self._process.kill()
        finally:
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(self._lost())

    def _take(self, message: Values) -> None:
        if "ask" in message:
            answering = asyncio.create_task(self._answer(message))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)
        elif (waiting := self._waiting.get(message["id"])) and not waiting.done():
            waiting.set_result(message)

    async def _answer(self, ask: Values) -> None:
        reply: Values = {"ask": ask["ask"]}
        asked = self.asked.get(ask["session"])
        try:
            if asked is None:
                raise EnvironmentFailed("the conversation is over", "")
            reply["text"] = await asked(ask["who"], ask["messages"])
        except UserError as error:
            reply["error"] = str(error)
        with suppress(EnvironmentLost):
            self._write(reply)

    def _lost(self) -> EnvironmentLost:
        self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, self._printed.tell() - PRINTED_CHARACTERS_MAX))
        printed = self._printed.read().decode(errors="replace").strip()
        return EnvironmentLost(f"the program of the environment ended: {printed}", "")
