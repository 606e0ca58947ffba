"""Calls of functions in processes, which are kept and ended when a call takes too long."""

import asyncio
import json
from asyncio.subprocess import Process
from typing import Any

from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.places import Places
from tool_adapters.functions import worker
from tool_adapters.functions.errors import FunctionFailed, limit_exceeded
from tool_adapters.helper_processes import end, start

PROCESSES_MAX = 3
PROCESSES_PER_TENANT_MAX = 2
# Every function takes a fraction of it on an idle processor.
CALL_TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 16 * 1024 * 1024
TOO_LONG = f"the function took longer than {CALL_TIMEOUT_S:g} s; ask for less"
TOO_LARGE = "the function needs too much memory, or its answer is too large; ask for less"


class FunctionProcesses:
    """Runs PROCESSES_MAX at once; a free place goes to the tenant that has the fewest."""

    def __init__(self) -> None:
        self._places = Places(PROCESSES_MAX, PROCESSES_PER_TENANT_MAX)
        self._idle: list[Process] = []

    async def call(self, tenant: str, function: str, arguments: dict[str, Any]) -> Any:
        """The function's answer. Raises FunctionFailed."""
        request = json.dumps({"function": function, "arguments": arguments}).encode() + b"\n"
        async with self._places.place(tenant):
            process = await self._process()
            try:
                line = await self._exchange(process, request)
            except BaseException:
                await end(process)
                raise
            self._idle.append(process)
        reply = json.loads(line)
        if failed := reply.get("failure"):
            raise FunctionFailed(ToolFailure(FailureKind(failed[0]), failed[1]))
        return reply["answer"]

    async def warm_up(self) -> None:
        """Starts one ahead, which takes seconds."""
        self._idle.append(await self._process())

    async def close(self) -> None:
        while self._idle:
            await end(self._idle.pop())

    async def _process(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        return await start(worker.__name__, ANSWER_BYTES_MAX)

    async def _exchange(self, process: Process, request: bytes) -> bytes:
        """Raises FunctionFailed, after which the process is of no use."""
        assert process.stdin is not None and process.stdout is not None
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                process.stdin.write(request)
                await process.stdin.drain()
                line = await process.stdout.readline()
        except TimeoutError as error:
            raise limit_exceeded(TOO_LONG) from error
        except (ConnectionError, ValueError) as error:
            raise limit_exceeded(TOO_LARGE) from error
        if not line.endswith(b"\n"):
            raise limit_exceeded(TOO_LARGE)
        return line
