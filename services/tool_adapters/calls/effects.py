"""Effectful calls happen once: the same key gets the first answer, in any process.

A call is claimed before it is made and answered after. A claim without an answer is a call
that still runs, or one whose process ended in between: then no one knows whether it took
effect, and the model gets that as the result. It is never made again. A process that is only slow
holds its lock, and is waited for.

A database that is away for a while is no such end. As soon as it is back, an answer is stored, and
a claim that may have been stored although no reply came is given back: its call was not made.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID, uuid4

import tenacity

from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.errors import Unavailable
from tool_adapters.adapter import ONE_CALL, Answer, ToolCall
from tool_adapters.errors import CallConflict
from tool_adapters.models import ToolDefinition

POLL_S = 0.1
# A process whose session breaks takes its lock again after two rounds of a second.
LEFT_AFTER_S = 5.0
BACKOFF = tenacity.wait_exponential_jitter(multiplier=0.05, max=1, jitter=0.05)


@dataclass
class ClaimAttempt:
    """One attempt to claim a key; a claim that was sent may be stored though no reply came."""

    id: UUID = field(default_factory=uuid4)
    sent: bool = False


@dataclass(frozen=True)
class Claim:
    """A key as it is stored, with the digest of its call's content."""

    digest: str
    answer: Answer | None = None
    is_new: bool = False
    """True if this claim made it."""
    is_left: bool = False
    """True if it has no answer, and the process that made it holds no lock."""


class EffectStore(Protocol):
    async def claim(self, tenant: str, key: str, digest: str, attempt: ClaimAttempt) -> Claim:
        """Marks the attempt as sent before it is. Raises Unavailable."""

    async def release(self, tenant: str, key: str, claim_id: UUID) -> None:
        """Raises Unavailable."""

    async def answer(self, tenant: str, key: str, answer: Answer) -> None:
        """Raises Unavailable."""


class EffectLog:
    def __init__(self, store: EffectStore) -> None:
        self._store = store
        self._writing: set[asyncio.Task[None]] = set()

    async def once(
        self, call: ToolCall, tool: ToolDefinition, make: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """The first answer of the call's key. Raises CallConflict for other content."""
        digest = _digest(call)
        # A call that runs elsewhere is waited for as long as it may run.
        until = time.monotonic() + tool.limits.timeout_s
        held_at = time.monotonic()
        while True:
            claim = await self._claim(call, digest)
            if not claim.is_left:
                held_at = time.monotonic()
            if claim.digest != digest:
                raise CallConflict(call.key)
            if claim.is_new:
                return await self._make(call, tool, make)
            if claim.answer is not None:
                return claim.answer
            if time.monotonic() >= min(until, held_at + LEFT_AFTER_S):
                return _unknown(tool)
            await asyncio.sleep(POLL_S)

    async def _claim(self, call: ToolCall, digest: str) -> Claim:
        attempt = ClaimAttempt()
        try:
            return await self._store.claim(call.tenant, call.key, digest, attempt)
        except (Unavailable, asyncio.CancelledError):
            # Callers come again while the database is away; what never left leaves no work behind.
            if attempt.sent:
                self._write(self._store.release, call.tenant, call.key, attempt.id)
            raise

    async def _make(
        self, call: ToolCall, tool: ToolDefinition, make: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        try:
            answer = await make()
        except asyncio.CancelledError:
            self._write(self._store.answer, call.tenant, call.key, _unknown(tool))
            raise
        await asyncio.shield(self._write(self._store.answer, call.tenant, call.key, answer))
        return answer

    def _write(self, write: Callable[..., Awaitable[None]], *values: object) -> asyncio.Task[None]:
        """Continues when its caller leaves: until it is stored, it is known here alone."""
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(Unavailable), wait=BACKOFF
        )
        writing: asyncio.Task[None] = asyncio.create_task(retrying(write, *values))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        return writing


def _unknown(tool: ToolDefinition) -> Answer:
    message = (
        f"{tool.name} was interrupted; whether it took effect is unknown, so "
        "find out before you call it again"
    )
    failure = ToolFailure(FailureKind.CANCELLED, message)
    return Answer(failure, ONE_CALL, tool.sku, 0.0, 1)


def _digest(call: ToolCall) -> str:
    content = [call.tool_name, call.tool_version, call.arguments, call.task, call.context]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
