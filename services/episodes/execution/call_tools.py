"""The tool calls of one turn: held together, made in parallel, logged together."""

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from episodes.attachments.reading import attachments_of, measured, read_by, task_for
from episodes.attachments.store import AttachmentStore
from episodes.clients import Adapters, Guardrails, guardrails_timeout_s
from episodes.errors import TRANSIENT, faults_of
from episodes.execution.children import ChildAnswers
from episodes.execution.composites import is_composite, reject_cut_text
from episodes.execution.local_tools import ToolFinder, note_result
from episodes.execution.replays import note_recorded
from episodes.execution.token_limit import remaining_for_tool_call
from episodes.execution.tool_calls import EpisodeToolCall
from episodes.keys import StepKind, effect_key
from episodes.shielding import shielded
from episodes.spending.guardrail_holds import CALL_STAGES, guardrail_holds
from episodes.spending.holds import Charges, GrantedHold, Reply
from episodes.spending.worst_case import ToolHolds, timeout_s
from episodes.step_log.log import Body, StepLog, StepLogs, expert_context
from episodes.step_log.running_episode import RunningEpisode, definition_of
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.common.v1 import usage_pb2
from podium.episodes.v1 import trajectory_pb2
from podium.ledger.v1 import hold_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import guardrail_pb2, policy_pb2, tool_pb2, toolset_pb2
from podium_kit import telemetry
from podium_kit.attachments import AttachedFile, Attachment
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.errors import DomainError, InternalError
from podium_kit.tool_kinds import kind_of
from podium_kit.wire import failure_from_proto, failure_to_proto
from podium_kit.wire.values import file_to_proto

log = logging.getLogger(__name__)

# After so many faults at one call it becomes a failure the model sees.
FAULTS_MAX = 8
UNKNOWN = "the call met a fault of the platform; whether it was made is not known"
# The adapters enforce the tool's own timeout; this margin lets their answer arrive.
TIMEOUT_MARGIN_S = 10.0
# The model reads why a text is no whole answer.
CUT_WORDS = {
    "length": "the model ran out of tokens here: this is no whole answer",
    "content_filter": "the provider's filter ended this: it is no whole answer",
    "refusal": "the model declined to answer",
}
REJECTIONS = {
    hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED: FailureKind.BUDGET_EXHAUSTED,
    hold_pb2.REJECTION_REASON_UNKNOWN_PRICE: FailureKind.DENIED_BY_POLICY,
}


@dataclass(frozen=True)
class ToolCallInvoker:
    adapters: Adapters
    charges: Charges
    logs: StepLogs
    children: ChildAnswers
    finder: ToolFinder
    attachments: AttachmentStore

    async def invoke(
        self, episode: RunningEpisode, steps: StepLog, turn: int, calls: list[EpisodeToolCall]
    ) -> None:
        """Makes the calls of a turn that are not in the log yet, and logs them."""
        todo = [call for call in calls if not steps.has(turn, call.step, call.index)]
        held = await self._held(episode, steps, turn, todo)
        making = [
            asyncio.create_task(_traced(self._made(episode, steps, turn, call), call.name))
            for call in held
        ]
        try:
            results = await asyncio.gather(*making, return_exceptions=True)
        except asyncio.CancelledError:
            # Calls that were answered are paid, and their cost is known.
            answered = [
                made.result() for made in making if not made.cancelled() and not made.exception()
            ]
            with suppress(DomainError):
                await shielded(self._store(steps, turn, answered))
            raise
        # The calls that succeeded are stored before an error of the platform fails the attempt.
        await self._store(steps, turn, [one for one in results if isinstance(one, EpisodeToolCall)])
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _held(
        self, episode: RunningEpisode, steps: StepLog, turn: int, calls: list[EpisodeToolCall]
    ) -> list[EpisodeToolCall]:
        remaining = remaining_for_tool_call(episode, steps, turn)
        asks_model = any(kind_of(call.kind).has_models for call in calls)
        files = await self._measured(episode) if asks_model else []
        requests = ToolHolds(episode, steps, turn, files, remaining)
        calls = [
            call if call.is_free else replace(call, failure=call.denial(remaining))
            for call in calls
        ]
        payable = {
            call.index: requests.of(
                call.asked,
                call.tool,
                call.model_alias,
                step=call.step,
                reported_as=call.composite.name if call.composite else "",
            )
            for call in calls
            if call.tool is not None and call.failure is None and not call.is_free
        }
        guardrails = [
            question
            for call in calls
            if call.index in payable
            for question in guardrail_holds(
                payable[call.index], _guardrails(episode, call), CALL_STAGES
            )
        ]
        replies = await self.charges.settle_and_reserve(
            episode, steps, list(payable.values()), guardrails
        )
        holds = dict(zip(payable, replies, strict=True))
        return [_with_hold(call, holds.get(call.index, GrantedHold())) for call in calls]

    async def _store(self, steps: StepLog, turn: int, made: list[EpisodeToolCall]) -> None:
        bodies: list[tuple[int, StepKind, int, Body]] = [
            (turn, call.step, call.index, call.record) for call in made if call.record
        ]
        await self.logs.append(steps, bodies)

    async def _made(
        self, episode: RunningEpisode, steps: StepLog, turn: int, call: EpisodeToolCall
    ) -> EpisodeToolCall:
        record = trajectory_pb2.ToolInvocation(
            key=effect_key(episode.id, turn, call.step, call.index),
            observation=pb.Observation(call=call.asked),
            model=call.model_alias,
            approval=call.approval,
        )
        made = replace(call, record=record)
        if call.failure is not None or call.tool is None or call.hold is None:
            failure = call.failure or ToolFailure(FailureKind.INTERNAL, "the call has no hold")
            record.observation.failure.CopyFrom(failure_to_proto(failure))
            return made
        record.granted_output_tokens = call.hold.output_tokens
        record.guardrail_keys.extend(call.hold.guardrail_keys)
        record.tool_version = call.tool.version
        if call.recorded is not None:
            note_recorded(record, call.recorded)
        elif call.result is not None:
            note_result(record, call.result)
        elif call.child is not None and call.ended is not None:
            tenant = episode.stored.new.tenant
            await self.children.fill(record, tenant, call.child.episode_id, call.tool, call.ended)
        elif call.kind == tool_pb2.TOOL_KIND_FIND_TOOLS:
            await self._find(record, episode, call.tool)
        else:
            request = _invoke_request(episode, steps, turn, call.tool, record)
            request.guardrails.extend(_guardrails(episode, call))
            if call.decision is not None and call.decision.cache is not None:
                request.policy_name = episode.toolset.policy_name
                request.cache.MergeFromString(call.decision.cache)
            sent = read_by(episode.spec, call.tool, call.model_alias)
            request.files.extend(map(file_to_proto, await self._files(episode, sent)))
            request.fallback_models.extend(
                alias
                for alias in call.hold.fallbacks
                if alias in call.fallbacks and sent == read_by(episode.spec, call.tool, alias)
            )
            steps.note_sent(record.key)
            await ask_adapters(self.adapters, request, call.tool, record)
            if record.cut_reason and is_composite(call.tool):
                reject_cut_text(record)
        return made

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


async def _traced(making: Awaitable[EpisodeToolCall], name: str) -> EpisodeToolCall:
    with telemetry.tool_call(name) as span:
        made = await making
        if made.record is not None:
            span.returned(made.record.key, *span_content(made.record))
        return made


def _with_hold(call: EpisodeToolCall, reply: Reply) -> EpisodeToolCall:
    if isinstance(reply, GrantedHold):
        return replace(call, hold=reply)
    return replace(call, failure=rejected(reply))


def _guardrails(episode: RunningEpisode, call: EpisodeToolCall) -> Iterator[policy_pb2.Guardrail]:
    """Returns what reads a call; what reads answers reads a result that is one."""
    yield from map(policy_pb2.Guardrail.FromString, call.guardrails)
    if call.tool is None or not call.tool.gives_answer:
        return
    for each in episode.toolset.guardrails:
        if each.stages and guardrail_pb2.GUARDRAIL_STAGE_OUTPUT not in each.stages:
            of_result = policy_pb2.Guardrail()
            of_result.CopyFrom(each)
            of_result.stages[:] = [guardrail_pb2.GUARDRAIL_STAGE_OUTPUT]
            yield of_result


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
    if kind_of(tool.kind).has_models:
        remaining = remaining_for_tool_call(episode, steps, turn)
        if remaining is not None:
            request.max_output_tokens = min(request.max_output_tokens, remaining)
        request.task = task_for(episode.spec, tool, record.model)
        request.context = expert_context(steps, turn)
        if tool.delegates:
            request.offered_tools.extend(map(definition_of, episode.offered_to_delegates()))
        request.model_alias = record.model
    return request


async def ask_adapters(
    adapters: Adapters,
    request: adapters_pb.InvokeRequest,
    tool: toolset_pb2.ResolvedTool,
    record: trajectory_pb2.ToolInvocation,
) -> adapters_pb.InvokeResponse | None:
    """Records the adapters' answer and returns it; None for a fault that no retry would end.

    The record of a fault settles the call's hold, too. Raises the DomainError of a part of the
    platform that is away: the call waits.
    """
    try:
        response = await adapters.invoke(request, answer_timeout_s(tool, request.guardrails))
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
    """Returns a fault as the model sees it; raises the error of a part of the platform that is
    away."""
    if not isinstance(error, TRANSIENT):
        return ToolFailure(FailureKind.INTERNAL, error.message)
    if isinstance(error, InternalError) and faults_of(key) >= FAULTS_MAX:
        return ToolFailure(FailureKind.UNAVAILABLE, UNKNOWN)
    raise error


def answer_timeout_s(tool: toolset_pb2.ResolvedTool, guardrails: Guardrails) -> float:
    """Guardrails read what is sent and what is given."""
    return timeout_s(tool) + TIMEOUT_MARGIN_S + 2 * guardrails_timeout_s(guardrails)


def rejected(rejection: hold_pb2.Rejection) -> ToolFailure:
    return ToolFailure(REJECTIONS.get(rejection.reason, FailureKind.INTERNAL), rejection.message)


def note_answer(
    record: trajectory_pb2.ToolInvocation, response: adapters_pb.InvokeResponse
) -> None:
    if response.HasField("failure"):
        record.observation.failure.CopyFrom(response.failure)
    else:
        record.observation.content = response.output.content
        if response.finish_reason in CUT_WORDS:
            record.cut_reason = response.finish_reason
            record.observation.content += f"\n\n({CUT_WORDS[response.finish_reason]})"
    record.guardrails.extend(response.guardrails)
    record.cached = response.cached
    record.unsent = response.unsent
    if not response.unsent:
        record.usage.CopyFrom(response.usage)
    record.latency.CopyFrom(response.latency)
    record.latency_modelled = response.latency_modelled
    record.sku = response.sku
    if response.model_alias != record.model:
        record.answered_by_model = response.model_alias


def span_content(record: trajectory_pb2.ToolInvocation) -> tuple[str, str, str]:
    """Returns arguments, result and kind of failure of a call, for its span."""
    seen = record.observation
    kind = failure_from_proto(seen.failure).kind.value if seen.HasField("failure") else ""
    return seen.call.arguments_json, seen.content, kind
