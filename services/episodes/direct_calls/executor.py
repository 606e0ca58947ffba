"""Makes a call without an episode: holds its worst case, asks the adapters, posts what it cost.

Every attempt has the call's one key: the ledger holds and captures once, and what the adapters
answered is stored before it is charged, so a repeated attempt charges what is stored.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal

from episodes.attachments.reading import measured
from episodes.attachments.store import AttachmentStore
from episodes.clients import Adapters, Ledger
from episodes.direct_calls.call import DirectCall, StoredCall
from episodes.direct_calls.charging import NOTHING, charged, held, identity_of
from episodes.direct_calls.store import DirectCallStore, call_of
from episodes.errors import TRANSIENT
from episodes.execution.call_tools import answer_timeout_s, rejected
from episodes.queue.store import LeasedRow, QueueTable, WorkQueue
from episodes.spending.worst_case import (
    output_tokens,
    sku_of,
)
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.ledger.v1 import hold_pb2
from podium_kit import telemetry
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.metering import Dimension, Quantity, Usage, UsageSource
from podium_kit.metering.usage_reports import estimated_usage
from podium_kit.money import Money
from podium_kit.rpc.errors import DeadlineExceeded, DomainError, Unavailable
from podium_kit.rpc.identity import acting_as
from podium_kit.tool_kinds import kind_of
from podium_kit.wire import (
    failure_from_proto,
    failure_to_proto,
    quantities_from_proto,
    usage_from_proto,
    usage_to_proto,
)
from podium_kit.wire.values import file_to_proto

# Parts that no caller reads are gathered: they are what a call costs that is cut off.
UNREAD_INTERVAL_S = 0.25
CALLER_GONE = "the caller was gone before the model had answered"


class CallNews:
    """Parts of an answer, as they arrive, and the ended call; None where another process ends it.

    `left` is set once nobody waits any more and the call is to end.
    """

    def __init__(self, *, with_parts: bool) -> None:
        self.part_interval_s = 0.0 if with_parts else UNREAD_INTERVAL_S
        self._with_parts = with_parts
        self.left = asyncio.Event()
        self.call: StoredCall | None = None
        self._sent: adapters_pb.SentRequest | None = None
        self._sent_at = 0.0
        self._written: list[str] = []
        self._part: adapters_pb.AnswerPart | None = None
        self._over = False
        self._news = asyncio.Event()
        self._is_taken = False

    def taken(self) -> "CallNews | None":
        """Returns itself once: parts are reported to one caller."""
        first, self._is_taken = not self._is_taken, True
        return self if first else None

    def note(self, event: adapters_pb.InvokeStreamingResponse) -> None:
        if event.HasField("sent"):
            self._sent, self._sent_at = event.sent, asyncio.get_running_loop().time()
            return
        part = event.part
        self._written += [part.text, *(each.call.arguments_json for each in part.function_calls)]
        if not self._with_parts:
            return
        if self._part is None:
            self._part = part
        else:
            self._part.text += part.text
            self._part.function_calls.extend(part.function_calls)
        self._news.set()

    def end(self) -> None:
        self._over = True
        self._news.set()

    async def parts(self) -> AsyncIterator[adapters_pb.AnswerPart]:
        while True:
            await self._news.wait()
            self._news.clear()
            over, part, self._part = self._over, self._part, None
            if part is not None:
                yield part
            if over:
                return

    def cut_off(self, call: DirectCall) -> adapters_pb.InvokeResponse:
        """The answer of a call that ends here: what was written is paid for, by estimate."""
        failure = ToolFailure(FailureKind.CANCELLED, CALLER_GONE)
        return adapters_pb.InvokeResponse(
            failure=failure_to_proto(failure),
            usage=usage_to_proto(self._usage()),
            sku=sku_of(call.tool, call.alias),
            model_alias=call.alias,
            attempts=1,
            unsent=self._sent is None,
        )

    def _usage(self) -> Usage:
        if self._sent is None:
            return Usage((), UsageSource.MEASURED)
        written = estimated_usage("", "".join(self._written))
        quantities = Usage.total([usage_from_proto(self._sent.usage), written])
        if self._sent.timed:
            seconds = asyncio.get_running_loop().time() - self._sent_at
            quantities = (*quantities, Quantity(Dimension.SECOND, Decimal(f"{seconds:.3f}")))
        return Usage(quantities, UsageSource.ESTIMATED)


@dataclass(frozen=True)
class DirectCallMaker:
    """`followed` are calls that are waited for in this process, by id."""

    store: DirectCallStore
    adapters: Adapters
    ledger: Ledger
    attachments: AttachmentStore
    followed: dict[str, CallNews] = field(default_factory=dict)

    async def make(self, stored: StoredCall) -> None:
        call = DirectCall.of(stored)
        with (
            acting_as(identity_of(call)),
            telemetry.episode_context(stored.id),
            telemetry.span("direct_call"),
        ):
            await self._make(call)

    async def fail(self, call_id: str, message: str) -> None:
        """Ends the call with a failure, or with its answer where there is one.

        The cost of a call without an answer stays unknown here; its hold becomes a provisional
        cost in the ledger.
        """
        failure = ToolFailure(FailureKind.UNAVAILABLE, message)
        failed = adapters_pb.InvokeResponse(failure=failure_to_proto(failure)).SerializeToString()
        stored, cost = await self.store.answered(call_id, failed), None
        if stored.answer and stored.answer != failed:
            answer = adapters_pb.InvokeResponse.FromString(stored.answer)
            with suppress(DomainError), acting_as(identity_of(DirectCall.of(stored))):
                cost = await charged(self.ledger, DirectCall.of(stored), answer)
        await self.store.ended(call_id, cost, failed)

    async def _make(self, call: DirectCall) -> None:
        stored = call.stored
        if stored.ended:
            return
        if stored.answer is None:
            files = await measured(
                self.adapters, self.attachments, stored.tenant, stored.id, call.attachments
            )
            reply = await held(self.ledger, call, sum(one.estimated_tokens for one in files))
            if reply.HasField("rejection"):
                await self._end_unmade(call, rejected(reply.rejection))
                return
            answer = await self._answer(call, reply.hold)
        else:
            answer = adapters_pb.InvokeResponse.FromString(stored.answer)
        try:
            cost = await charged(self.ledger, call, answer)
            if kind_of(call.tool.kind).stateful:
                await self.adapters.close_episode(stored.id)
        except DomainError:
            # Charged and closed later, and not made again for it.
            await self.store.answered(stored.id, answer.SerializeToString())
            raise
        await self._end(stored.id, answer, cost)

    async def _answer(self, call: DirectCall, hold: hold_pb2.Hold) -> adapters_pb.InvokeResponse:
        """Returns the adapters' answer; a failure that was not sent where they reject the call."""
        try:
            return await self._asked(call, hold)
        except TRANSIENT:
            raise
        except DomainError as error:
            # They do so before they make it, so it costs nothing.
            failure = ToolFailure(FailureKind.UNAVAILABLE, error.message)
            return adapters_pb.InvokeResponse(failure=failure_to_proto(failure), unsent=True)

    async def _asked(self, call: DirectCall, hold: hold_pb2.Hold) -> adapters_pb.InvokeResponse:
        granted = output_tokens(quantities_from_proto(hold.worst_case))
        files = await self.attachments.load(call.stored.tenant, call.stored.id, call.attachments)
        asked = _invoke(call, granted)
        asked.guardrails.extend(call.guardrails)
        if call.toolset.HasField("cache"):
            asked.policy_name = call.toolset.policy_name
            asked.cache.CopyFrom(call.toolset.cache)
        asked.files.extend(map(file_to_proto, files))
        with telemetry.tool_call(call.tool.name) as span:
            answer = await self._invoked(call, asked)
            span.returned(asked.key, asked.arguments_json, answer.output.content, _failure(answer))
            return answer

    async def _invoked(
        self, call: DirectCall, asked: adapters_pb.InvokeRequest
    ) -> adapters_pb.InvokeResponse:
        timeout_s, news = (
            answer_timeout_s(call.tool, call.guardrails),
            self.followed.get(call.stored.id),
        )
        if news is None or not asked.HasField("conversation"):
            return await self.adapters.invoke(asked, timeout_s)
        if news.left.is_set():
            return news.cut_off(call)
        answering = asyncio.create_task(self._followed(asked, timeout_s, news))
        leaving = asyncio.create_task(news.left.wait())
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return answering.result() if answering.done() else news.cut_off(call)
        finally:
            answering.cancel()
            leaving.cancel()

    async def _followed(
        self, asked: adapters_pb.InvokeRequest, timeout_s: float, news: CallNews
    ) -> adapters_pb.InvokeResponse:
        async for event in self.adapters.invoke_streaming(asked, timeout_s, news.part_interval_s):
            if event.HasField("response"):
                return event.response
            news.note(event)
        raise Unavailable("the adapters ended a call without its answer")

    async def _end_unmade(self, call: DirectCall, failure: ToolFailure) -> None:
        answer = adapters_pb.InvokeResponse(failure=failure_to_proto(failure))
        await self._end(call.stored.id, answer, NOTHING)

    async def _end(
        self, call_id: str, answer: adapters_pb.InvokeResponse, cost: Money | None
    ) -> None:
        ended = await self.store.ended(call_id, cost, answer.SerializeToString())
        if (news := self.followed.get(call_id)) is not None:
            news.call = ended


def _failure(answer: adapters_pb.InvokeResponse) -> str:
    return failure_from_proto(answer.failure).kind.value if answer.HasField("failure") else ""


def _invoke(call: DirectCall, granted_tokens: int) -> adapters_pb.InvokeRequest:
    if not call.asks_model:
        return adapters_pb.InvokeRequest(
            key=call.stored.key,
            episode_id=call.stored.id,
            tool_name=call.tool.name,
            tool_version=call.tool.version,
            arguments_json=call.spec.arguments_json,
        )
    if call.embeds:
        return adapters_pb.InvokeRequest(
            key=call.stored.key,
            episode_id=call.stored.id,
            tool_name=call.tool.name,
            tool_version=call.tool.version,
            arguments_json=json.dumps({**call.arguments, "model": call.alias}),
            model_alias=call.alias,
        )
    sampling = call.spec.sampling
    conversation = adapters_pb.Conversation(messages=call.spec.messages)
    if not call.spec.messages:
        conversation.messages.add(role="user", content=call.arguments["prompt"])
    if sampling.HasField("temperature"):
        conversation.temperature = sampling.temperature
    if sampling.HasField("top_p"):
        conversation.top_p = sampling.top_p
    if sampling.HasField("seed"):
        conversation.seed = sampling.seed
    conversation.options.CopyFrom(call.spec.options)
    return adapters_pb.InvokeRequest(
        key=call.stored.key,
        episode_id=call.stored.id,
        tool_name=call.tool.name,
        tool_version=call.tool.version,
        arguments_json=json.dumps({"model": call.alias}),
        model_alias=call.alias,
        max_output_tokens=granted_tokens,
        conversation=conversation,
    )


CALL_QUEUE = QueueTable(
    kind="direct call",
    name="direct_call_queue",
    id="call_id",
    channel="direct_calls",
    read="d.*",
    join="JOIN direct_calls d ON d.id = leased.call_id",
    since="d.create_time",
    parse=call_of,
)
# Beyond the time of the call's tool, for the ledger and the stores.
MARGIN_S = 60.0
# Parts of the platform that are away for so long end the call.
OUTAGE_MAX_S = 600.0


@dataclass(frozen=True)
class QueuedCalls:
    queue: WorkQueue[StoredCall]
    maker: DirectCallMaker

    async def do(self, leased: LeasedRow[StoredCall]) -> None:
        """Makes the call. Raises DeadlineExceeded when that takes longer than its tool may."""
        stored = leased.item
        if stored.ended:
            await self.queue.drop(stored.id)
            return
        try:
            async with asyncio.timeout(_longest_s(stored)):
                await self.maker.make(stored)
        except TimeoutError as error:
            raise DeadlineExceeded("the platform did not make the call in time") from error
        finally:
            if (news := self.maker.followed.pop(stored.id, None)) is not None:
                news.end()

    async def fail(self, leased: LeasedRow[StoredCall], message: str) -> None:
        await self.maker.fail(leased.id, message)

    def max_age_s(self, leased: LeasedRow[StoredCall]) -> float:
        return _longest_s(leased.item) + OUTAGE_MAX_S


def _longest_s(stored: StoredCall) -> float:
    call = DirectCall.of(stored)
    return answer_timeout_s(call.tool, call.guardrails) + MARGIN_S
