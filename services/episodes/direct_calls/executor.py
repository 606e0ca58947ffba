"""Makes a call without an episode: holds its worst case, asks the adapters, posts what it cost.

Every attempt has the call's one key: the ledger holds and captures once, and what the adapters
answered is stored before it is charged, so a repeated attempt charges what is stored.
"""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from episodes.attachments.reading import measured
from episodes.attachments.store import AttachmentStore
from episodes.clients import Adapters, Ledger
from episodes.direct_calls.call import DirectCall, StoredCall
from episodes.direct_calls.store import DirectCallStore, call_of
from episodes.errors import TRANSIENT
from episodes.execution.call_tools import answer_timeout_s, rejected
from episodes.queue.store import LeasedRow, QueueTable, WorkQueue
from episodes.spending.captures import captured_alone, captured_cost, unsent_release
from episodes.spending.holds import Payer, retry_while_budget_is_held
from episodes.spending.worst_case import (
    call_worst_case,
    hold_request,
    model_worst_case,
    output_tokens,
    sku_of,
    tokens_max,
)
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium_kit import telemetry
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.money import Money
from podium_kit.rpc.errors import DeadlineExceeded, DomainError
from podium_kit.rpc.identity import Identity, Scope, acting_as
from podium_kit.tool_kinds import kind_of
from podium_kit.wire import (
    failure_from_proto,
    failure_to_proto,
    quantities_from_proto,
)
from podium_kit.wire.values import file_to_proto

NOTHING = Money.zero("USD")


@dataclass(frozen=True)
class DirectCallMaker:
    store: DirectCallStore
    adapters: Adapters
    ledger: Ledger
    attachments: AttachmentStore

    async def make(self, stored: StoredCall) -> None:
        call = DirectCall.of(stored)
        with (
            acting_as(_identity(call)),
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
            with suppress(DomainError), acting_as(_identity(DirectCall.of(stored))):
                cost = await self._charged(stored.key, answer)
        await self.store.ended(call_id, cost)

    async def _make(self, call: DirectCall) -> None:
        stored = call.stored
        if stored.ended:
            return
        if stored.answer is None:
            files = await measured(
                self.adapters, self.attachments, stored.tenant, stored.id, call.attachments
            )
            request = _hold_request(call, sum(one.estimated_tokens for one in files))
            asked = partial(self._reserved, _payer(call), request)
            [reply] = await retry_while_budget_is_held(await asked(True), asked)
            if reply.HasField("rejection"):
                await self._end_unmade(call, rejected(reply.rejection))
                return
            response = await self._answer(call, reply.hold)
            stored = await self.store.answered(stored.id, response.SerializeToString())
        answer = adapters_pb.InvokeResponse.FromString(stored.answer or b"")
        cost = await self._charged(stored.key, answer)
        if kind_of(call.tool.kind).stateful:
            await self.adapters.close_episode(stored.id)
        await self.store.ended(stored.id, cost)

    async def _reserved(
        self, payer: Payer, request: ledger_pb.ReserveRequest, asks_again: bool
    ) -> list[ledger_pb.ReserveResponse]:
        results = await self.ledger.apply([payer.reserve(request, asks_again=asks_again)])
        return [result.reserve for result in results]

    async def _charged(self, key: str, answer: adapters_pb.InvokeResponse) -> Money | None:
        """Posts the cost; the hold of a call that never left the platform is released."""
        if answer.unsent:
            await self.ledger.apply([unsent_release(key, answer.failure)])
            return NOTHING
        capture = ledger_pb.CaptureRequest(key=key, usage=answer.usage)
        result = await captured_alone(self.ledger, capture)
        return captured_cost(result.capture.entry)

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
        asked.files.extend(map(file_to_proto, files))
        with telemetry.tool_call(call.tool.name) as span:
            answer = await self.adapters.invoke(asked, answer_timeout_s(call.tool))
            span.returned(asked.key, asked.arguments_json, answer.output.content, _failure(answer))
            return answer

    async def _end_unmade(self, call: DirectCall, failure: ToolFailure) -> None:
        answer = adapters_pb.InvokeResponse(failure=failure_to_proto(failure))
        await self.store.answered(call.stored.id, answer.SerializeToString())
        await self.store.ended(call.stored.id, NOTHING)


def _identity(call: DirectCall) -> Identity:
    scopes = frozenset({Scope.LEDGER_WRITE, Scope.EPISODES_RUN})
    return Identity(call.stored.tenant, call.stored.subject, scopes, call.stored.groups)


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


def _hold_request(call: DirectCall, file_tokens: int) -> ledger_pb.ReserveRequest:
    worst_case = call_worst_case(call.timeout_s)
    if call.asks_model:
        read = tokens_max(call.spec.ByteSize() + call.tool.prompt_bytes) + file_tokens
        worst_case = model_worst_case(read, call.output_tokens, call.timeout_s)
        worst_case = worst_case[:1] if call.embeds else worst_case
    sku = sku_of(call.tool, call.alias)
    return hold_request(call.stored.key, call.tool.name, call.alias, sku, worst_case)


def _payer(call: DirectCall) -> Payer:
    own_budget = [call.stored.budget_id] if call.spec.HasField("budget") else []
    return Payer(
        _identity(call),
        call.spec.labels,
        call.toolset,
        (*call.toolset.budget_ids, *own_budget),
        call.timeout_s,
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

    async def fail(self, leased: LeasedRow[StoredCall], message: str) -> None:
        await self.maker.fail(leased.id, message)

    def max_age_s(self, leased: LeasedRow[StoredCall]) -> float:
        return _longest_s(leased.item) + OUTAGE_MAX_S


def _longest_s(stored: StoredCall) -> float:
    return DirectCall.of(stored).timeout_s + MARGIN_S
