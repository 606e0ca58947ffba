"""Effectful calls happen once: the same key gets the first answer, in any process.

A call is claimed before it is made and answered after. A claim without an answer is a call
that still runs, or one whose process ended in between: then no one knows whether it took
effect, and the model gets that as the result. It is never made again.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import ONE_CALL, Answer, ToolCall
from tool_adapters.errors import CallConflict
from tool_adapters.models import ToolDefinition

POLL_S = 0.1


@dataclass(frozen=True)
class Claim:
    """A key as it is stored: whether this call made it, of which content, and its answer."""

    is_new: bool
    digest: str
    answer: Answer | None


class EffectStore(Protocol):
    async def claim(self, tenant: str, key: str, digest: str) -> Claim: ...
    async def answer(self, tenant: str, key: str, answer: Answer) -> None: ...


class EffectLog:
    def __init__(self, store: EffectStore) -> None:
        self._store = store

    async def once(
        self, call: ToolCall, tool: ToolDefinition, make: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """The first answer of the call's key. Raises CallConflict for other content."""
        digest = _digest(call)
        claim = await self._store.claim(call.tenant, call.key, digest)
        if claim.digest != digest:
            raise CallConflict(call.key)
        if claim.is_new:
            return await self._make(call, tool, make)
        return claim.answer or await self._wait(call, tool, digest)

    async def _make(
        self, call: ToolCall, tool: ToolDefinition, make: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        try:
            answer = await make()
        except asyncio.CancelledError:
            await self._store.answer(call.tenant, call.key, _unknown(tool))
            raise
        await self._store.answer(call.tenant, call.key, answer)
        return answer

    async def _wait(self, call: ToolCall, tool: ToolDefinition, digest: str) -> Answer:
        """The answer of a call that runs elsewhere, for as long as it may run."""
        until = time.monotonic() + tool.limits.timeout_s
        while time.monotonic() < until:
            await asyncio.sleep(POLL_S)
            claim = await self._store.claim(call.tenant, call.key, digest)
            if claim.answer is not None:
                return claim.answer
        return _unknown(tool)


def _unknown(tool: ToolDefinition) -> Answer:
    message = (
        f"{tool.name} was interrupted and nobody knows whether it took effect; "
        "find out before you call it again"
    )
    failure = ToolFailure(FailureKind.CANCELLED, message)
    return Answer(failure, ONE_CALL, tool.sku, 0.0, 1)


def _digest(call: ToolCall) -> str:
    content = [call.tool_name, call.tool_version, call.arguments, call.task, call.context]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
