import asyncio
import json
from asyncio.subprocess import Process
from typing import Any

from podium_functions.errors import FunctionFailed, limit_exceeded
from podium_functions.function import Function
from podium_functions.table import FUNCTIONS
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.helper_processes import READY, end, start
from podium_kit.limits.concurrency import FairSemaphore
from tool_adapters.adapter import Adapter, AdapterResult, Output, ToolCall
from tool_adapters.models import FunctionConnection, JsonObject, ToolDefinition

WORKER = "tool_adapters.functions.worker"
PROCESSES_MAX = 3
PROCESSES_PER_TENANT_MAX = 2
# What a process may lack for a while.
SHORTAGES = (MemoryError, OSError)
# A function's libraries are imported in half a second on an idle processor.
LOAD_TIMEOUT_S = 60.0
# Every function takes a fraction of it on an idle processor.
CALL_TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 16 * 1024 * 1024
TOO_LONG = f"the function took longer than {CALL_TIMEOUT_S:g} s; ask for less"
TOO_LARGE = "the function needs too much memory, or its answer is too large; ask for less"


class FunctionProcesses:
    """Runs PROCESSES_MAX at once; a free place goes to the tenant that has the fewest.

    A process takes seconds to start on a busy machine. Nothing waits for the start of one while
    another is ready sooner.
    """

    def __init__(self) -> None:
        self._places = FairSemaphore(PROCESSES_MAX, PROCESSES_PER_TENANT_MAX)
        # An error for each that could not be started.
        self._ready: asyncio.Queue[Process | MemoryError | OSError] = asyncio.Queue()
        self._started = 0
        self._starting: set[asyncio.Task[None]] = set()

    async def call(self, tenant: str, function: str, arguments: dict[str, Any]) -> Any:
        """Raises FunctionFailed."""
        request = json.dumps({"function": function, "arguments": arguments}).encode() + b"\n"
        async with self._places.slot(tenant):
            process = await self._process()
            try:
                line = await self._exchange(process, request)
            except BaseException:
                self._started -= 1
                await end(process)
                raise
            self._ready.put_nowait(process)
        reply = json.loads(line)
        if failed := reply.get("failure"):
            raise FunctionFailed(ToolFailure(FailureKind(failed[0]), failed[1]))
        return reply["answer"]

    def warm_up(self) -> None:
        self._start_one()

    async def close(self) -> None:
        for starting in self._starting:
            starting.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        while not self._ready.empty():
            ready = self._ready.get_nowait()
            if isinstance(ready, Process):
                await end(ready)

    async def _process(self) -> Process:
        """The next that is ready. Raises what a process lacked that could not be started."""
        while True:
            if self._ready.empty() and self._started < PROCESSES_MAX:
                self._start_one()
            ready = await self._ready.get()
            if isinstance(ready, SHORTAGES):
                raise ready
            if ready.returncode is None:
                return ready
            self._started -= 1

    def _start_one(self) -> None:
        self._started += 1
        starting = asyncio.create_task(self._start())
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)

    async def _start(self) -> None:
        process = None
        try:
            process = await start(WORKER, ANSWER_BYTES_MAX)
            assert process.stdout is not None
            if await process.stdout.readline() != READY:
                raise OSError("a process for functions ended while it started")
        except SHORTAGES as error:
            self._started -= 1
            self._ready.put_nowait(error)
        except asyncio.CancelledError:
            if process is not None:
                await end(process)
            raise
        else:
            self._ready.put_nowait(process)

    async def _exchange(self, process: Process, request: bytes) -> bytes:
        """Raises FunctionFailed, after which the process is of no use."""
        assert process.stdin is not None and process.stdout is not None
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_S):
                process.stdin.write(request)
                await process.stdin.drain()
                loaded = await process.stdout.readline()
            async with asyncio.timeout(CALL_TIMEOUT_S):
                line = loaded and await process.stdout.readline()
        except TimeoutError as error:
            raise limit_exceeded(TOO_LONG) from error
        except (ConnectionError, ValueError) as error:
            raise limit_exceeded(TOO_LARGE) from error
        if not line.endswith(b"\n"):
            raise limit_exceeded(TOO_LARGE)
        return line


# Functions that wait for a process of their own, for a bounded time.
WAITING = {"query_database": Function("queried", "podium_functions.sql")}


class FunctionAdapter(Adapter):
    def __init__(self) -> None:
        self._processes = FunctionProcesses()

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        assert isinstance(tool.connection, FunctionConnection)
        name = tool.connection.function
        if name not in FUNCTIONS:
            return AdapterResult(_unknown(name))
        try:
            answer = await self._answer(call.tenant, name, call.arguments)
        except FunctionFailed as error:
            return AdapterResult(error.failure)
        content = json.dumps(answer, ensure_ascii=False)
        return AdapterResult(Output(content, content))

    def warm_up(self) -> None:
        self._processes.warm_up()

    async def close(self) -> None:
        await self._processes.close()

    async def _answer(self, tenant: str, name: str, arguments: JsonObject) -> object:
        if waiting := WAITING.get(name):
            await asyncio.to_thread(waiting.load)
            return await waiting(arguments)
        return await self._processes.call(tenant, name, arguments)


def _unknown(name: str) -> ToolFailure:
    message = f"no function is called {name!r}; there are {', '.join(FUNCTIONS)}"
    return ToolFailure(FailureKind.NOT_FOUND, message)
