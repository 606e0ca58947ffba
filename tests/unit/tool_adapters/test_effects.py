import asyncio
from uuid import UUID

import pytest

from builders.tool_calls import tool_call, tool_definition
from podium_kit.postgres.engine import DatabaseUnavailable
from podium_kit.tool_kinds import HTTP
from tool_adapters.adapter import Answer
from tool_adapters.calls.effects import Claim, ClaimAttempt, EffectLog
from tool_adapters.models import FunctionConnection

TOOL = tool_definition("order", HTTP, FunctionConnection("order"))


class AwayStore:
    """A database that is away when it is asked, or once it has been sent a claim."""

    def __init__(self, *, sent: bool) -> None:
        self._sent = sent
        self.given_back: list[UUID] = []
        self.attempts: list[ClaimAttempt] = []

    async def claim(self, tenant: str, key: str, digest: str, attempt: ClaimAttempt) -> Claim:
        attempt.sent = self._sent
        self.attempts.append(attempt)
        raise DatabaseUnavailable

    async def release(self, tenant: str, key: str, claim_id: UUID) -> None:
        self.given_back.append(claim_id)

    async def answer(self, tenant: str, key: str, answer: Answer) -> None:
        raise AssertionError


async def never() -> Answer:
    raise AssertionError


@pytest.mark.parametrize("sent", [False, True])
async def test_only_a_claim_that_was_sent_is_given_back(sent: bool) -> None:
    store = AwayStore(sent=sent)
    with pytest.raises(DatabaseUnavailable):
        await EffectLog(store).once(tool_call("order"), TOOL, never)
    # The task that gives it back runs without a wait.
    for _ in range(10):
        await asyncio.sleep(0)
    assert store.given_back == [attempt.id for attempt in store.attempts if sent]
