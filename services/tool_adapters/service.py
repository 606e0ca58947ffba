"""Calls a tool once: fetched, checked, limited, measured, and never an exception of its own."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from podium_kit.attachments import AttachedFile
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.limits.json_cost import CostlyJson, require_bounded_json
from podium_kit.limits.time_limit import time_limit
from podium_kit.rpc.identity import current_identity
from podium_kit.text import whole_characters
from podium_kit.tool_kinds import ToolKind
from tool_adapters.adapter import (
    Adapter,
    Answer,
    AnswerListener,
    CutOff,
    ModelConversation,
    ModelFunction,
    ToolCall,
)
from tool_adapters.calls.attempts import Attempts, CallProgress, first_answer
from tool_adapters.calls.bulkheads import COOL_DOWN_S, Gate, Gates
from tool_adapters.calls.effects import EffectLog
from tool_adapters.calls.facts import FactsBook, Unavailability
from tool_adapters.calls.schemas import arguments_failure
from tool_adapters.errors import InvalidCall
from tool_adapters.guardrails.models import Guardrail, Read
from tool_adapters.guardrails.service import Guardrails
from tool_adapters.guardrails.streams import shown_early
from tool_adapters.guardrails.texts import ReadableAnswer, ReadableCall, ReadableOutcome
from tool_adapters.models import JsonObject, SideEffect, Stage, ToolDefinition
from tool_adapters.response_cache.models import CacheRule
from tool_adapters.response_cache.service import ResponseCache

UNWELL = {FailureKind.UNAVAILABLE, FailureKind.TIMEOUT}


class ToolSource(Protocol):
    async def tool(self, tenant: str, name: str, version: int) -> ToolDefinition: ...


@dataclass(frozen=True)
class CallRequest:
    """A call as it was asked for; the arguments are whatever the model wrote."""

    key: str
    episode_id: str
    tool_name: str
    tool_version: int
    arguments_json: str
    task: str
    context: str
    max_output_tokens: int
    model_alias: str = ""
    fallback_models: tuple[str, ...] = ()
    conversation: ModelConversation | None = None
    files: tuple[AttachedFile, ...] = ()
    offered_tools: tuple[ModelFunction, ...] = ()
    guardrails: tuple[Guardrail, ...] = ()
    cache: CacheRule | None = None

    def __post_init__(self) -> None:
        for field in ("key", "episode_id", "tool_name"):
            if not getattr(self, field):
                raise InvalidCall(f"{field} is empty")
        if self.tool_version < 1:
            raise InvalidCall("tool_version is unset; an episode is pinned to a version")
        if self.conversation is not None and not self.conversation.messages:
            raise InvalidCall("conversation.messages is empty")
        if self.max_output_tokens < 0:
            raise InvalidCall("max_output_tokens is negative; 0 means the tool's")


@dataclass(frozen=True)
class Invoker:
    tools: ToolSource
    adapters: Mapping[ToolKind, Adapter]
    attempts: Attempts
    gates: Gates
    effects: EffectLog
    facts: FactsBook
    guardrails: Guardrails
    responses: ResponseCache

    async def invoke(self, request: CallRequest, listener: AnswerListener | None = None) -> Answer:
        """The tool's answer or failure. Raises a DomainError for a wrong request only."""
        tenant = current_identity().tenant
        tool = await self.tools.tool(tenant, request.tool_name, request.tool_version)
        arguments = _parsed(request.arguments_json)
        call = _call(request, tenant, {} if isinstance(arguments, ToolFailure) else arguments)
        if listener is not None:
            listener = shown_early(listener, request.guardrails)
        call = _asking(replace(call, cut=CutOff(listener=listener)), tool)
        failure = arguments if isinstance(arguments, ToolFailure) else None
        failure = failure or self._unserved(tool) or _unfit(tool, call)
        if failure:
            return CallProgress(call, tool).answer(failure)
        if tool.side_effect is SideEffect.EFFECTFUL:
            make = partial(self._read_answer, call, tool, request)
            return await self.effects.once(call, tool, make)
        return await self._read_answer(call, tool, request)

    async def check_answer(
        self, guardrails: Sequence[Guardrail], key: str, answer: str
    ) -> Read[ReadableAnswer]:
        return await self.guardrails.read(guardrails, key, Stage.ANSWER, ReadableAnswer(answer))

    async def close_episode(self, episode_id: str) -> None:
        tenant = current_identity().tenant
        if not episode_id:
            raise InvalidCall("episode_id is empty")
        adapters = self.adapters.values()
        await asyncio.gather(*(adapter.close_episode(tenant, episode_id) for adapter in adapters))

    def _unserved(self, tool: ToolDefinition) -> ToolFailure | None:
        if tool.kind in self.adapters:
            return None
        if tool.kind.starts_episode:
            message = f"{tool.name} starts an episode, so only an episode can call it"
            return ToolFailure(FailureKind.UNAVAILABLE, message)
        message = f"tools of kind {tool.kind.name} have no adapter in this deployment"
        return ToolFailure(FailureKind.UNAVAILABLE, message)

    async def _read_answer(
        self, call: ToolCall, tool: ToolDefinition, request: CallRequest
    ) -> Answer:
        """The answer as the guardrails let it be shown; a call that they block is not made."""
        read = partial(
            self.guardrails.read,
            request.guardrails,
            request.key,
            tool=tool.name,
            model=call.model_alias,
        )
        sent = await read(Stage.INPUT, ReadableCall(call))
        call = sent.subject.call
        if failure := sent.failure or (_unfit(tool, call) if sent.decisions else None):
            return replace(CallProgress(call, tool).answer(failure), guardrails=sent.decisions)
        found = await self.responses.find(request.cache, call, tool)
        answer = found or await self._answer(call, tool)
        given = ReadableOutcome(answer.outcome)
        shown = await read(Stage.OUTPUT, given)
        answer = replace(
            answer,
            outcome=shown.failure or shown.subject.outcome,
            guardrails=(*sent.decisions, *shown.decisions),
        )
        if found is None:
            await self.responses.store(request.cache, call, tool, answer)
        return answer

    async def _answer(self, call: ToolCall, tool: ToolDefinition) -> Answer:
        return await first_answer(call, tool, partial(self._measured, tool))

    async def _measured(self, tool: ToolDefinition, call: ToolCall, timeout_s: float) -> Answer:
        alias = call.model_alias
        gate = self.gates.of(call.tenant, tool, alias)
        answer = await self._guarded(CallProgress(call, tool), gate, timeout_s)
        if answer.attempts:
            well = not isinstance(answer.outcome, ToolFailure)
            subject = (tool.name, alias)
            self.facts.record(
                call.tenant,
                subject,
                answer.latency_s,
                answer.usage,
                succeeded=well,
                unavailable=_unavailability(gate, answer),
            )
        return answer

    async def _guarded(self, progress: CallProgress, gate: Gate, timeout_s: float) -> Answer:
        if not gate.breaker.lets_pass():
            return progress.answer(_resting(progress.tool, gate))
        try:
            answer = await self._limited(progress, gate, timeout_s)
        except BaseException:
            gate.breaker.abandon()
            raise
        if answer.attempts:
            gate.breaker.record(unwell=_is_unwell(progress.tool, answer))
        else:
            gate.breaker.abandon()
        return answer

    async def _limited(self, progress: CallProgress, gate: Gate, timeout_s: float) -> Answer:
        """Waiting for a slot and every attempt share the time."""
        tool = progress.tool
        try:
            async with time_limit(timeout_s), gate.places.slot(progress.call.tenant):
                return await self.attempts.make(progress)
        except TimeoutError:
            return progress.answer(_too_slow(progress) if progress.started else _busy(tool))


def _unfit(tool: ToolDefinition, call: ToolCall) -> ToolFailure | None:
    if call.conversation is None:
        return arguments_failure(tool, call.arguments)
    if not tool.kind.has_models:
        raise InvalidCall(f"{tool.name} is no language model, and takes no conversation")
    return None


def _parsed(arguments_json: str) -> JsonObject | ToolFailure:
    try:
        require_bounded_json(arguments_json.encode())
        arguments = json.loads(arguments_json or "{}")
    except CostlyJson as error:
        message = f"the JSON of the arguments {error}; send less at once, and flatter"
        return ToolFailure(FailureKind.INVALID_ARGUMENTS, message)
    except (ValueError, RecursionError) as error:
        return ToolFailure(FailureKind.INVALID_ARGUMENTS, f"the arguments are not JSON: {error}")
    if not isinstance(arguments, dict):
        return ToolFailure(FailureKind.INVALID_ARGUMENTS, "the arguments are not a JSON object")
    # Text of a message holds whole characters; only an escape stands for half of one.
    escaped = "\\u" in arguments_json
    if escaped and whole_characters(plain := json.dumps(arguments, ensure_ascii=False)) != plain:
        message = "the arguments hold half a character (a lone surrogate); write it whole"
        return ToolFailure(FailureKind.INVALID_ARGUMENTS, message)
    return arguments


def _asking(call: ToolCall, tool: ToolDefinition) -> ToolCall:
    """The call with the model that its caller states: what was priced is what is called.

    A model that only the arguments name wrongly is reported to who wrote them, by the schema.
    Raises InvalidCall where it states two, or one that there is not.
    """
    if not tool.aliases:
        return call
    named = call.arguments.get("model")
    only = tool.aliases[0] if len(tool.aliases) == 1 else ""
    alias = call.model_alias or named or only
    if not (call.model_alias or call.conversation) and alias not in tool.aliases:
        return call
    if alias not in tool.aliases or named not in (None, alias):
        raise InvalidCall(
            f"model_alias is {call.model_alias!r} and the argument model {named!r};"
            f" state one of {', '.join(tool.aliases)}"
        )
    return call.asking(alias) if len(tool.aliases) > 1 else replace(call, model_alias=alias)


def _call(request: CallRequest, tenant: str, arguments: JsonObject) -> ToolCall:
    return ToolCall(
        key=request.key,
        episode_id=request.episode_id,
        tool_name=request.tool_name,
        tool_version=request.tool_version,
        arguments=arguments,
        task=request.task,
        context=request.context,
        max_output_tokens=request.max_output_tokens,
        tenant=tenant,
        model_alias=request.model_alias,
        fallback_models=request.fallback_models,
        conversation=request.conversation,
        files=request.files,
        offered_tools=request.offered_tools,
    )


def _is_unwell(tool: ToolDefinition, answer: Answer) -> bool:
    if not isinstance(answer.outcome, ToolFailure):
        return False
    # A program that runs for too long is not the sandbox's illness.
    unwell = UNWELL - {FailureKind.TIMEOUT} if tool.kind.may_run_long else UNWELL
    return answer.outcome.kind in unwell


def _unavailability(gate: Gate, answer: Answer) -> Unavailability | None:
    if gate.breaker.closes_in_s:
        return Unavailability("it did not answer several times in a row", gate.breaker.closes_in_s)
    failure = answer.outcome
    if not (isinstance(failure, ToolFailure) and failure.kind is FailureKind.RATE_LIMITED):
        return None
    reason = "it is rate-limited" if failure.retryable else "its quota is used up"
    return Unavailability(reason, failure.retry_after_s or COOL_DOWN_S)


def _resting(tool: ToolDefinition, gate: Gate) -> ToolFailure:
    message = f"{tool.name} did not answer several times in a row and is left alone for a while"
    return ToolFailure(FailureKind.UNAVAILABLE, message, True, gate.breaker.closes_in_s)


def _busy(tool: ToolDefinition) -> ToolFailure:
    limits = tool.limits
    message = (
        f"{tool.name} is busy: none of its {limits.max_concurrency} places became free "
        f"within {limits.timeout_s:g} s"
    )
    return ToolFailure(FailureKind.UNAVAILABLE, message, True)


def _too_slow(progress: CallProgress) -> ToolFailure:
    tool, written = progress.tool, progress.call.cut.content
    message = f"{tool.name} gave no answer within {tool.limits.timeout_s:g} s"
    message += f"; it had written: {written}" if written else ""
    return ToolFailure(FailureKind.TIMEOUT, message, True)
