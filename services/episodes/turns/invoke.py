"""The tool calls of one turn: held together, made in parallel, logged together."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass

from episodes.attachments.for_experts import attachments_of, read_by, task_for
from episodes.attachments.measuring import measured
from episodes.attachments.store import AttachmentStore
from episodes.charges.purchases import ToolPurchases, model_alias
from episodes.charges.service import OUTPUT_TOKENS_MIN, Charges, Grant
from episodes.children.answers import ChildAnswers
from episodes.clients import Adapters
from episodes.keys import StepKind, effect_key
from episodes.models import PolicyDecision
from episodes.running_episode import RunningEpisode
from episodes.steps.expert_context import expert_context
from episodes.steps.log import Body, StepLog, StepLogs
from episodes.temporal.uninterrupted import uninterrupted
from episodes.turns.client_calls import ClientResult, is_client_tool, note_result
from episodes.turns.find_tools import ToolFinder
from episodes.turns.platform_faults import ask_adapters, failure_of
from episodes.turns.token_limit import left_for_tool_call
from episodes.turns.tool_records import rejected, span_content
from episodes.workflows.payloads import ChildCall, EpisodeResult
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.episodes.v1 import trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit import telemetry
from podium_kit.attachments import AttachedFile, Attachment
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.errors import DomainError
from podium_kit.wire import failure_to_proto
from podium_kit.wire.attachment import file_to_proto

Verdict = Grant | ToolFailure


@dataclass(frozen=True)
class ToolCallPlan:
    """A call, its tool, and what the policy and a person decided about it.

    Without a decision of the policy the call is done already, or its child was started.
    `fallbacks` are the models that the policy lets answer in place of the one asked for.
    `problem` says why the call cannot be made; `result` is what the episode's caller answered.
    """

    call: pb.ToolCall
    tool: toolset_pb2.ResolvedTool | None
    decision: PolicyDecision | None = None
    fallbacks: frozenset[str] = frozenset()
    approval: trajectory_pb2.ApprovalDecision | None = None
    child: ChildCall | None = None
    problem: ToolFailure | None = None
    ended: EpisodeResult | None = None
    result: ClientResult | None = None

    @property
    def starts_child(self) -> bool:
        """Whether an episode of its own is to answer it, and nothing forbids that."""
        allowed = self.decision is not None and _denial(self) is None
        return allowed and self.child is not None

    @property
    def finds_tools(self) -> bool:
        return self.tool is not None and self.tool.kind == tool_pb2.TOOL_KIND_FIND_TOOLS

    @property
    def asks_caller(self) -> bool:
        """Whether the episode's caller is to run it, and has not answered yet."""
        return is_client_tool(self.tool) and self.problem is None and self.result is None

    @property
    def waits(self) -> bool:
        if self.tool is None or self.decision is None or self.approval is not None:
            return False
        asked = self.tool.needs_approval or self.decision.needs_approval
        return asked and self.decision.allowed


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
                await uninterrupted(self._store(steps, turn, answered))
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
            await self.children.fill(record, plan.child.episode_id, plan.tool, plan.ended)
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


def _denial(plan: ToolCallPlan, tokens_left: int | None = None) -> ToolFailure | None:
    """Why a call is not even tried."""
    if plan.tool is None:
        return ToolFailure(
            FailureKind.NOT_FOUND, f"there is no tool {plan.call.tool_name}; use one of the list"
        )
    name = plan.call.tool_name
    if plan.decision is not None and not plan.decision.allowed:
        return ToolFailure(
            FailureKind.DENIED_BY_POLICY,
            f"the policy does not allow {name} any more: {plan.decision.reason}",
        )
    if plan.approval is not None and not plan.approval.approved:
        return ToolFailure(
            FailureKind.DENIED_BY_POLICY,
            f"a person did not approve this call of {name}; find another way",
        )
    asks_model = plan.tool.kind == tool_pb2.TOOL_KIND_LLM
    if asks_model and tokens_left is not None and tokens_left < OUTPUT_TOKENS_MIN:
        return ToolFailure(
            FailureKind.LIMIT_EXCEEDED,
            f"the request's output tokens leave {tokens_left} for {name}; answer without it",
        )
    return plan.problem


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
