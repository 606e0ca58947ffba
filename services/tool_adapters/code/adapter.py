import asyncio
import dataclasses
import logging
import time
from decimal import Decimal

from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.limits.concurrency import FairSemaphore
from podium_kit.metering import Usage, UsageSource
from podium_kit.text import unfenced
from tool_adapters.adapter import NOTHING_USED, Adapter, AdapterResult, CallFailed, Output, ToolCall
from tool_adapters.models import CodeConnection, ToolDefinition
from tool_adapters.sandbox import (
    Execution,
    IsolationUnavailable,
    Limits,
    Sandbox,
)

log = logging.getLogger(__name__)

RUNS_MAX = 32
# The sandbox's own clock ends a run before the service's does, and knows what was used.
CLOCK_LEAD_S = 0.5


class CodeAdapter(Adapter):
    """Runs `arguments["code"]`; billed by wall-clock seconds of the sandbox."""

    def __init__(self, sandbox: Sandbox, places: FairSemaphore) -> None:
        self._sandbox = sandbox
        self._places = places
        self._proven = False
        self._proof: asyncio.Task[str] | None = None

    @classmethod
    async def start(cls, sandbox: Sandbox, runs_max: int = RUNS_MAX) -> "CodeAdapter":
        """An adapter that has proven isolation, or one that rejects calls until it has."""
        adapter = cls(sandbox, FairSemaphore(runs_max))
        await adapter._missing()
        return adapter

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        """Raises SandboxBroken and DependencyAway: neither is an answer of the code."""
        assert isinstance(tool.connection, CodeConnection)
        # The schema is the tool owner's, and need not ask for it.
        if "code" not in call.arguments:
            message = "give code, the program that is to be run"
            raise CallFailed(FailureKind.INVALID_ARGUMENTS, message, unsent=True)
        if missing := await self._missing():
            return AdapterResult(ToolFailure(FailureKind.UNAVAILABLE, missing))
        limits = _limits(tool, tool.connection)
        # Should the wait for a place be cut off, nothing has run.
        call.cut.usage, call.cut.unsent = NOTHING_USED, True
        async with self._places.slot(call.tenant):
            call.cut.usage, call.cut.unsent = None, False
            started = time.monotonic()
            try:
                execution = await self._run(call, tool.connection, limits)
            except asyncio.CancelledError:
                # A sandbox that starts slowly is cut off before its own clock ends the run.
                call.cut.usage = _usage(time.monotonic() - started)
                raise
        outcome = execution.failure or Output(execution.output, files=execution.files)
        return AdapterResult(outcome, _usage(execution.duration_s))

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        await self._sandbox.close_episode(tenant, episode_id)

    async def close(self) -> None:
        await self._sandbox.close()

    async def _missing(self) -> str:
        """Returns why code is not isolated here; "" when it is.

        A shortage may have kept the proof from being made, and pass, so it is tried again.
        """
        if self._proven:
            return ""
        # Who asks while a proof is made takes what comes of it.
        if self._proof is None or self._proof.done():
            self._proof = asyncio.create_task(self._prove())
        return await asyncio.shield(self._proof)

    async def _prove(self) -> str:
        try:
            await self._sandbox.require_isolation()
        except IsolationUnavailable as error:
            log.error("%s", error)
            return str(error)
        self._proven = True
        self._sandbox.warm_up()
        return ""

    async def _run(self, call: ToolCall, connection: CodeConnection, limits: Limits) -> Execution:
        code = unfenced(str(call.arguments["code"]))
        if connection.stateful:
            return await self._sandbox.run_in_episode(code, limits, call.tenant, call.episode_id)
        return await self._sandbox.run(code, limits)


def _usage(seconds: float) -> Usage:
    return Usage.of(UsageSource.MEASURED, call=1, second=Decimal(f"{seconds:.3f}"))


def _limits(tool: ToolDefinition, connection: CodeConnection) -> Limits:
    limits = Limits()
    timeout_s = tool.limits.timeout_s
    # Both streams and the files together stay below what the tool may answer.
    output_bytes = min(tool.limits.max_output_bytes // 4, limits.output_bytes)
    return dataclasses.replace(
        limits,
        wall_time_s=max(timeout_s - CLOCK_LEAD_S, timeout_s / 2),
        memory_bytes=connection.memory_bytes or limits.memory_bytes,
        output_bytes=output_bytes,
        files_bytes=min(tool.limits.max_output_bytes - 3 * output_bytes, limits.files_bytes),
    )
