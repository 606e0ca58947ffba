"""The tool calls of one turn: held together, made in parallel, logged together."""

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass

from episodes.attachments.reading import attachments_of, measured, read_by, task_for
from episodes.attachments.store import AttachmentStore
from episodes.clients import Adapters
from episodes.errors import TRANSIENT, faults_of
from episodes.execution.children import ChildAnswers
from episodes.execution.local_tools import ToolFinder, note_result
from episodes.execution.token_limit import left_for_tool_call
from episodes.execution.tool_calls import (
    ToolCallPlan,
    Verdict,
    _denial,
    answer_timeout_s,
    note_answer,
    rejected,
    span_content,
)
from episodes.keys import StepKind, effect_key
from episodes.shielding import shielded
from episodes.spending.holds import Charges, Grant
from episodes.spending.worst_case import ToolPurchases, model_alias
from episodes.step_log.log import Body, StepLog, StepLogs, expert_context
from episodes.step_log.running_episode import RunningEpisode
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.common.v1 import usage_pb2
from podium.episodes.v1 import trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit import telemetry
from podium_kit.attachments import AttachedFile, Attachment
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.errors import DomainError, InternalError
from podium_kit.wire import failure_to_proto
from podium_kit.wire.attachment import file_to_proto


@dataclass(frozen=True)
class ToolCallInvoker:
    """Makes an episode's tool calls."""

    adapters: Adapters
    charges: Charges
    logs: StepLogs
    children: ChildAnswers
    finder: ToolFinder
    attachments: AttachmentStore

    async def invoke(
        self, episode: RunningEpisode, steps: StepLog, turn: int, plans: list[ToolCallPlan]
    ) -> None:
        """Makes the calls of a turn that are not in the log yet, and logs them."""
        todo = [plan for plan in plans if not steps.has(turn, StepKind.TOOL, plan.call.index)]
        verdicts = await self._verdicts(episode, steps, turn, todo)
        making = [
            asyncio.create_task(
                _traced(plan, self._call(episode, steps, turn, plan, verdicts[plan.call.index]))
            )
            for plan in todo
        ]
        try:
            results = await asyncio.gather(*making, return_exceptions=True)
        except asyncio.CancelledError:
            # What was answered is paid, and its cost is known.
            answered = [
                (plan, call.result())
                for plan, call in zip(todo, making, strict=True)
                if not call.cancelled() and call.exception() is None
            ]
            with suppress(DomainError):
                await shielded(self._store(steps, turn, answered))
            raise
        await self._log(steps, turn, todo, results)

    async def _verdicts(
        self, episode: RunningEpisode, steps: StepLog, turn: int, plans: list[ToolCallPlan]
    ) -> dict[int, Verdict]:
        """By call index: what is granted, or why the call is not even tried."""
        left = left_for_tool_call(episode, steps, turn)
        asks_model = any(plan.tool and plan.tool.kind == tool_pb2.TOOL_KIND_LLM for plan in plans)
        files = await self._measured(episode) if asks_model else []
        purchases = ToolPurchases(episode, steps, turn, files, left)
        denials = {plan.call.index: failure for plan in plans if (failure := _denial(plan, left))}
        # What a child spends is its own, and what the caller runs is the caller's.
        free = {
            plan.call.index: Grant()
            for plan in plans
            if plan.ended is not None or plan.finds_tools or plan.result is not None
        }
        payable = [
            (plan.call.index, purchases.of(plan.call, plan.tool))
            for plan in plans
            if plan.tool is not None and plan.call.index not in denials | free
        ]
        replies = await self.charges.settle_and_reserve(
            episode, steps, [purchase for _, purchase in payable]
        )
        verdicts: dict[int, Verdict] = {**denials, **free}
        for (index, _), reply in zip(payable, replies, strict=True):
            verdicts[index] = reply if isinstance(reply, Grant) else rejected(reply)
        return verdicts

    async def _log(
        self,
        steps: StepLog,
        turn: int,
        plans: list[ToolCallPlan],
        results: list[trajectory_pb2.ToolInvocation | BaseException],
    ) -> None:
        """Stores what succeeded before it lets an error of the platform fail the attempt."""
        done = [
            (plan, result)
            for plan, result in zip(plans, results, strict=True)
            if not isinstance(result, BaseException)
        ]
        await self._store(steps, turn, done)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _store(
        self,
        steps: StepLog,
        turn: int,
        done: list[tuple[ToolCallPlan, trajectory_pb2.ToolInvocation]],
    ) -> None:
        bodies: list[tuple[int, StepKind, int, Body]] = [
            (turn, StepKind.TOOL, plan.call.index, record) for plan, record in done
        ]
        await self.logs.append(steps, bodies)

    async def _call(
        self,
        episode: RunningEpisode,
        steps: StepLog,
        turn: int,
        plan: ToolCallPlan,
        verdict: Verdict,
    ) -> trajectory_pb2.ToolInvocation:
        key = effect_key(episode.id, turn, StepKind.TOOL, plan.call.index)
        record = trajectory_pb2.ToolInvocation(
            key=key,
            observation=pb.Observation(call=plan.call),
            model=_model_alias(plan),
            approval=plan.approval,
        )
        if isinstance(verdict, ToolFailure):
            record.observation.failure.CopyFrom(failure_to_proto(verdict))
            return record
        if plan.tool is None:
            raise AssertionError("a call without a tool is denied")
        record.granted_output_tokens = verdict.output_tokens
        record.tool_version = plan.tool.version
        if plan.result is not None:
            note_result(record, plan.result)
        elif plan.child is not None and plan.ended is not None:
            tenant = episode.stored.new.tenant
            await self.children.fill(record, tenant, plan.child.episode_id, plan.tool, plan.ended)
        elif plan.finds_tools:
            await self._find(record, episode, plan.tool)
        else:
            request = _invoke_request(episode, steps, turn, plan.tool, record)
            sent = read_by(episode.spec, plan.tool, record.model)
            request.files.extend(map(file_to_proto, await self._files(episode, sent)))
            request.fallback_models.extend(
                alias
                for alias in verdict.fallbacks
                if alias in plan.fallbacks and sent == read_by(episode.spec, plan.tool, alias)
            )
            steps.unsent.discard(key)
            await ask_adapters(self.adapters, request, plan.tool, record)
        return record

    async def _find(
        self,
        record: trajectory_pb2.ToolInvocation,
        episode: RunningEpisode,
        finder: toolset_pb2.ResolvedTool,
    ) -> None:
        try:
            await self.finder.fill(record, episode, finder)
        except DomainError as error:
            failure = failure_of(error, record.key)
            record.observation.failure.CopyFrom(failure_to_proto(failure))

    async def _measured(self, episode: RunningEpisode) -> list[Attachment]:
        return await measured(
            self.adapters,
            self.attachments,
            episode.stored.new.tenant,
            episode.id,
            attachments_of(episode.spec),
        )

    async def _files(
        self, episode: RunningEpisode, attachments: list[Attachment]
    ) -> list[AttachedFile]:
        return await self.attachments.load(episode.stored.new.tenant, episode.id, attachments)


async def _traced(
    plan: ToolCallPlan, making: Awaitable[trajectory_pb2.ToolInvocation]
) -> trajectory_pb2.ToolInvocation:
    with telemetry.tool_call(plan.call.tool_name) as span:
        record = await making
        span.returned(record.key, *span_content(record))
        return record


def _model_alias(plan: ToolCallPlan) -> str:
    return model_alias(plan.call, plan.tool) if plan.tool else ""


def _invoke_request(
    episode: RunningEpisode,
    steps: StepLog,
    turn: int,
    tool: toolset_pb2.ResolvedTool,
    record: trajectory_pb2.ToolInvocation,
) -> adapters_pb.InvokeRequest:
    request = adapters_pb.InvokeRequest(
        key=record.key,
        episode_id=episode.id,
        tool_name=tool.name,
        tool_version=tool.version,
        arguments_json=record.observation.call.arguments_json,
        max_output_tokens=record.granted_output_tokens or tool.max_output_tokens,
    )
    if tool.kind == tool_pb2.TOOL_KIND_LLM:
        left = left_for_tool_call(episode, steps, turn)
        if left is not None:
            request.max_output_tokens = min(request.max_output_tokens, left)
        request.task = task_for(episode.spec, tool, record.model)
        request.context = expert_context(steps, turn)
        request.model_alias = record.model
    return request


log = logging.getLogger(__name__)

# After so many faults at one call it becomes a failure the model sees.
FAULTS_MAX = 8
UNKNOWN = "the call met a fault of the platform; whether it was made is not known"


async def ask_adapters(
    adapters: Adapters,
    request: adapters_pb.InvokeRequest,
    tool: toolset_pb2.ResolvedTool,
    record: trajectory_pb2.ToolInvocation,
) -> adapters_pb.InvokeResponse | None:
    """The answer, noted in the record; None for a fault that trying again would not end.

    Money is held for the call, so the record says what becomes of it either way. Raises the
    DomainError of a part of the platform that is away: the call waits.
    """
    try:
        response = await adapters.invoke(request, answer_timeout_s(tool))
    except DomainError as error:
        failure = failure_of(error, record.key)
        record.observation.failure.CopyFrom(failure_to_proto(failure))
        # The adapters reject a call before they make it. After a fault it is not known
        # whether it was made, so its cost is unknown, and not 0.
        if failure.kind is FailureKind.INTERNAL:
            record.unsent = True
        else:
            record.usage.source = usage_pb2.USAGE_SOURCE_ESTIMATED
            record.usage.unusable_reason = UNKNOWN
            log.warning("%s is recorded without a price: %s", record.key, UNKNOWN)
        return None
    note_answer(record, response)
    return response


def failure_of(error: DomainError, key: str) -> ToolFailure:
    """A fault the model can see. A part of the platform that is away is none, and raised again."""
    if not isinstance(error, TRANSIENT):
        return ToolFailure(FailureKind.INTERNAL, error.message)
    if isinstance(error, InternalError) and faults_of(key) >= FAULTS_MAX:
        return ToolFailure(FailureKind.UNAVAILABLE, UNKNOWN)
    raise error
