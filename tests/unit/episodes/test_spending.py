import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import grpc
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from callers import channel_to
from episodes.clients import Ledger, OperationResults, Operations
from episodes.direct_calls.call import DirectCall, StoredCall
from episodes.direct_calls.executor import CallNews, DirectCallMaker
from episodes.keys import StepKind
from episodes.models import Step
from episodes.spending.holds import KEY_REUSED, Charges, GrantedHold
from episodes.spending.worst_case import hold_request, token_worst_case, tokens_max
from episodes.step_log.log import StepLog, StepLogs
from episodes.step_log.running_episode import RunningEpisode
from episodes.step_log.settlements import Settlements
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.common.v1 import usage_pb2
from podium.episodes.v1 import direct_call_service_pb2 as direct_call_pb
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import cost_ledger_service_pb2_grpc as rpc
from podium.ledger.v1 import hold_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.attachments import Attachment
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.money import Money
from podium_kit.rpc.errors import (
    AlreadyExists,
    DependencyAway,
    DomainError,
    InvalidArgument,
    NotFound,
)
from podium_kit.rpc.identity import Identity, Scope, acting_as
from unit.episodes.stored_episodes import ID, stored_episode

INVALID = "invalid"


class SlowLedger(rpc.CostLedgerServiceServicer):
    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.gate = asyncio.Event()

    async def Apply(
        self,
        request: pb.ApplyRequest,
        context: grpc.aio.ServicerContext[pb.ApplyRequest, pb.ApplyResponse],
    ) -> pb.ApplyResponse:
        keys = [operation.release.key for operation in request.operations]
        self.requests.append(keys)
        await self.gate.wait()
        if INVALID in keys:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such key")
        results = [pb.OperationResult() for _ in keys]
        for result, key in zip(results, keys, strict=True):
            result.release.hold.key = key
        return pb.ApplyResponse(results=results)


@pytest_asyncio.fixture
async def ledger() -> AsyncIterator[tuple[SlowLedger, Ledger]]:
    slow = SlowLedger()  # type: ignore[abstract]
    async with channel_to(rpc.add_CostLedgerServiceServicer_to_server, slow) as channel:
        yield slow, Ledger(channel)


def operations(*keys: str) -> list[pb.Operation]:
    return [pb.Operation(release=pb.ReleaseRequest(key=key)) for key in keys]


async def apply_as(ledger: Ledger, subject: str, *keys: str) -> list[str]:
    with acting_as(Identity("acme", subject, frozenset({Scope.LEDGER_WRITE}))):
        results = await ledger.apply(operations(*keys))
    return [result.release.hold.key for result in results]


async def test_one_request_is_in_flight_and_the_rest_gathers_for_each_identity(
    ledger: tuple[SlowLedger, Ledger],
) -> None:
    slow, client = ledger
    first = [asyncio.create_task(apply_as(client, *each)) for each in (("ann", "1"), ("bob", "5"))]
    while len(slow.requests) < 2:
        await asyncio.sleep(0.01)
    later = (("ann", "2", "3"), ("ann", "4"), ("bob", "6"))
    rest = [asyncio.create_task(apply_as(client, *each)) for each in later]
    await asyncio.sleep(0)
    slow.gate.set()
    assert await asyncio.gather(*first, *rest) == [["1"], ["5"], ["2", "3"], ["4"], ["6"]]
    assert sorted(slow.requests) == [["1"], ["2", "3", "4"], ["5"], ["6"]]


async def test_an_invalid_operation_fails_alone(ledger: tuple[SlowLedger, Ledger]) -> None:
    slow, client = ledger
    keys = ("1", "2", INVALID, "3")
    running = [asyncio.create_task(apply_as(client, "ann", key)) for key in keys]
    while not slow.requests:
        await asyncio.sleep(0.01)
    slow.gate.set()
    one, two, invalid, three = await asyncio.gather(*running, return_exceptions=True)
    assert (one, two, three) == (["1"], ["2"], ["3"])
    assert isinstance(invalid, InvalidArgument)


async def test_an_episode_that_gives_up_stops_nobody_else(
    ledger: tuple[SlowLedger, Ledger],
) -> None:
    slow, client = ledger
    first = asyncio.create_task(apply_as(client, "ann", "1"))
    second = asyncio.create_task(apply_as(client, "ann", "2"))
    while not slow.requests:
        await asyncio.sleep(0.01)
    first.cancel()
    slow.gate.set()
    assert await second == ["2"]
    with pytest.raises(asyncio.CancelledError):
        await first


COVERED_TOKENS = 100


class OneAnswerLedger(Ledger):
    def __init__(self) -> None:
        self.asked: dict[str, pb.ReserveRequest] = {}
        self.holds: dict[str, hold_pb2.Hold] = {}
        self.captured: list[str] = []

    async def apply(self, operations: Operations) -> OperationResults:
        for operation in operations:
            request = operation.reserve
            if self.asked.get(request.key, request) != request:
                raise AlreadyExists(f"reserve {request.key} was answered", reason=KEY_REUSED)
        return [self._applied(operation) for operation in operations]

    def _applied(self, operation: pb.Operation) -> pb.OperationResult:
        if operation.HasField("capture"):
            self.captured.append(operation.capture.key)
            return pb.OperationResult(capture=pb.CaptureResponse())
        if operation.HasField("mark_dispatched"):
            hold = self.holds[operation.mark_dispatched.key]
            return pb.OperationResult(mark_dispatched=pb.MarkDispatchedResponse(hold=hold))
        request = operation.reserve
        self.asked[request.key] = request
        hold = hold_pb2.Hold(key=request.key, state=hold_pb2.HOLD_STATE_OPEN, sku=request.sku)
        for quantity in request.worst_case:
            covered = min(Decimal(quantity.amount), Decimal(COVERED_TOKENS))
            hold.worst_case.add(dimension=quantity.dimension, amount=str(covered))
        self.holds[request.key] = hold
        return pb.OperationResult(reserve=pb.ReserveResponse(hold=hold))


@pytest.fixture
def episode() -> RunningEpisode:
    spec = episode_pb2.EpisodeSpec(task="add")
    return RunningEpisode(stored_episode(), spec, toolset_pb2.Toolset())


@pytest.fixture
def unsettled() -> StepLog:
    usage = usage_pb2.Usage(source=usage_pb2.USAGE_SOURCE_PROVIDER)
    call = trajectory_pb2.ModelCall(response=orchestrator_pb.NextActionResponse(usage=usage))
    log = StepLog(ID)
    log.add([Step(ID, 1, 1, StepKind.MODEL, 0, call.SerializeToString())])
    return log


async def test_a_sku_that_is_renamed_between_two_attempts_fails_no_call(
    episode: RunningEpisode, unsettled: StepLog
) -> None:
    nowhere: Any = None
    ledger = OneAnswerLedger()
    charges = Charges(ledger, StepLogs(nowhere, Settlements(nowhere)))
    key, worst_case = f"{ID}/2/model/0", token_worst_case(9, 500)
    first = hold_request(key, "default", "default", "m/old", worst_case, turn=2)
    asked_again = hold_request(key, "default", "newer", "m/new", worst_case, turn=2)
    covered = GrantedHold(output_tokens=COVERED_TOKENS)
    assert await charges.settle_and_reserve(episode, StepLog(ID), [first]) == [covered]
    assert await charges.settle_and_reserve(episode, unsettled, [asked_again]) == [covered]
    assert ledger.holds[first.key].sku == "m/old"
    assert ledger.captured == [f"{ID}/1/model/0"] and not unsettled.unsettled()


async def test_a_hold_that_has_ended_pays_for_no_call(episode: RunningEpisode) -> None:
    nowhere: Any = None
    ledger = OneAnswerLedger()
    charges = Charges(ledger, StepLogs(nowhere, Settlements(nowhere)))
    key, worst_case = f"{ID}/1/model/0", token_worst_case(9, 500)
    first = hold_request(key, "default", "default", "m/old", worst_case, turn=1)
    await charges.settle_and_reserve(episode, StepLog(ID), [first])
    ledger.holds[first.key].state = hold_pb2.HOLD_STATE_RELEASED
    renamed = hold_request(key, "default", "default", "m/new", worst_case, turn=1)
    with pytest.raises(AlreadyExists):
        await charges.settle_and_reserve(episode, StepLog(ID), [renamed])


TEXTS = st.one_of(
    st.text(max_size=2000),
    st.text("0123456789", max_size=2000),
    st.text(st.characters(categories=["Co", "So", "Lo"]), max_size=500),
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(SmolLM2().directory / "tokenizer.json"))


@given(text=TEXTS)
def test_no_text_has_more_tokens_than_are_held(tokenizer: Tokenizer, text: str) -> None:
    assert len(tokenizer.encode(text).ids) <= tokens_max(len(text.encode()))


@given(size=st.integers(1, 20_000_000))
def test_a_pdf_is_held_at_what_was_measured_and_not_by_its_bytes(size: int) -> None:
    """A few kilobytes may be a thousand pages that share a stream (attack 35)."""
    file = Attachment("[file 1]", "application/pdf", "0" * 64, size)
    assert file.estimated_tokens == 200_000
    assert replace(file, tokens=6_000).estimated_tokens == 6_000
    assert replace(file, tokens=1_500_000).estimated_tokens == 1_500_000
    # No model reads more.
    assert replace(file, tokens=10**9).estimated_tokens == 2_000_000


CALL = StoredCall(
    id="01900000-0000-7000-8000-000000000001",
    tenant="acme",
    subject="ada",
    spec=direct_call_pb.DirectCallSpec(tool_name="sums", arguments_json="{}").SerializeToString(),
    toolset=toolset_pb2.Toolset(
        tools=[toolset_pb2.ResolvedTool(name="sums", version=1, kind=tool_pb2.TOOL_KIND_HTTP)]
    ).SerializeToString(),
    create_time=datetime.now(UTC),
)


class Platform:
    def __init__(self, error: DomainError) -> None:
        self.call = CALL
        self.open: set[str] = set()
        self._error = error

    async def apply(self, operations: Operations) -> OperationResults:
        [operation] = operations
        if operation.HasField("reserve"):
            self.open.add(operation.reserve.key)
            held = ledger_pb.ReserveResponse(hold=hold_pb2.Hold(key=operation.reserve.key))
            return [ledger_pb.OperationResult(reserve=held)]
        self.open.remove(operation.release.key)
        return [ledger_pb.OperationResult()]

    async def invoke(self, *_: object) -> adapters_pb.InvokeResponse:
        raise self._error

    async def load(self, *_: object) -> list[object]:
        return []

    async def answered(self, _: str, answer: bytes) -> StoredCall:
        self.call = replace(self.call, answer=answer)
        return self.call

    async def ended(self, _: str, cost: Money | None, answer: bytes) -> StoredCall:
        self.call = replace(self.call, cost=cost, answer=answer, ended=True)
        return self.call


async def test_a_call_that_is_rejected_gives_its_hold_back() -> None:
    platform: Any = Platform(NotFound("there is no version 1 of sums; name another tool"))
    await DirectCallMaker(platform, platform, platform, platform).make(CALL)
    failure = adapters_pb.InvokeResponse.FromString(platform.call.answer).failure
    assert failure.message == "there is no version 1 of sums; name another tool"
    assert platform.call.ended and platform.call.cost == Money.zero("USD")
    assert not platform.open


async def test_a_call_waits_for_adapters_that_are_away() -> None:
    platform: Any = Platform(DependencyAway())
    with pytest.raises(DependencyAway):
        await DirectCallMaker(platform, platform, platform, platform).make(CALL)
    assert platform.open and platform.call == CALL


async def test_unread_parts_are_paid_for_when_the_call_is_cut_off() -> None:
    news = CallNews(with_parts=False)
    sent = adapters_pb.SentRequest()
    sent.usage.source = usage_pb2.USAGE_SOURCE_ESTIMATED
    news.note(adapters_pb.InvokeStreamingResponse(sent=sent))
    news.note(adapters_pb.InvokeStreamingResponse(part=adapters_pb.AnswerPart(text="two moons")))
    news.end()
    assert [part async for part in news.parts()] == []
    used = {each.dimension for each in news.cut_off(DirectCall.of(CALL)).usage.quantities}
    assert used == {usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT}


async def test_a_call_that_is_cut_off_used_the_seconds_of_a_server_of_ones_own() -> None:
    news = CallNews(with_parts=True)
    sent = adapters_pb.SentRequest(timed=True)
    sent.usage.source = usage_pb2.USAGE_SOURCE_ESTIMATED
    news.note(adapters_pb.InvokeStreamingResponse(sent=sent))
    news.note(adapters_pb.InvokeStreamingResponse(part=adapters_pb.AnswerPart(text="two moons")))
    answer = news.cut_off(DirectCall.of(CALL))
    dimensions = {each.dimension for each in answer.usage.quantities}
    assert dimensions == {
        usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT,
        usage_pb2.USAGE_DIMENSION_SECOND,
    }
    assert not answer.unsent
    assert CallNews(with_parts=True).cut_off(DirectCall.of(CALL)).unsent
