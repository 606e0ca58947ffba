import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import tenacity

from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.limits.concurrency import FairThread
from podium_kit.limits.time_limit import is_shortage
from podium_kit.metering import Usage, UsageSource
from podium_kit.metering.usage_reports import estimated_usage
from podium_kit.rpc.errors import ShortOfResources, Unavailable
from podium_kit.text import whole_characters
from podium_kit.tool_kinds import ToolKind
from tool_adapters.adapter import (
    NOTHING_USED,
    ONE_CALL,
    Adapter,
    AdapterResult,
    Answer,
    CallFailed,
    Output,
    ToolCall,
)
from tool_adapters.calls.schemas import result_failure
from tool_adapters.models import LlmConnection, SideEffect, ToolDefinition
from tool_adapters.used_secrets import UsedSecrets, noting_secrets

log = logging.getLogger(__name__)

BACKOFF = tenacity.wait_exponential_jitter(multiplier=0.1, max=5, jitter=0.1)
# The most of a failure's message, also where an output may be smaller.
FAILURE_BYTES_MIN = 4_096
# A millisecond or two.
SEARCHED_AT_ONCE_BYTES_MAX = 16_384
SOURCES = (UsageSource.ESTIMATED, UsageSource.PROVIDER, UsageSource.MEASURED)


@dataclass
class CallProgress:
    """The state of a running call, and all that remains of it when it is cut off."""

    call: ToolCall
    tool: ToolDefinition
    started: float = 0.0
    results: list[AdapterResult] = field(default_factory=list)
    running: bool = False

    def answer(self, outcome: Output | ToolFailure) -> Answer:
        usages = [result.usage for result in self.results]
        if self.running:
            usages.append(_usage_when_cut(self.call, self.tool))
        skus = [result.sku for result in self.results if result.sku]
        alias = self.call.model_alias
        # A call that failed took the time that it took.
        modelled_s = self.tool.modelled_latency_s(alias) if isinstance(outcome, Output) else 0.0
        cut_unsent = self.call.cut.unsent and not self.tool.charges_unsent
        measured_s = time.monotonic() - self.started if self.started else 0.0
        return Answer(
            outcome=outcome,
            usage=_sum(usages),
            sku=skus[-1] if skus else _sku(self.call, self.tool),
            latency_s=modelled_s or measured_s,
            attempts=len(usages),
            model_alias=alias,
            latency_modelled=modelled_s > 0,
            # Also a call without any attempt.
            unsent=all(result.unsent for result in self.results)
            and (cut_unsent or not self.running),
            finish_reason=self.results[-1].finish_reason if self.results else "",
        )


class Attempts:
    """Pure and idempotent tools get more than one attempt."""

    def __init__(self, adapters: Mapping[ToolKind, Adapter]) -> None:
        self._adapters = adapters
        self._searching = FairThread()

    async def make(self, progress: CallProgress) -> Answer:
        """The answer of the last attempt. Retries wait at least as long as the tool asks."""
        progress.started = time.monotonic()
        effectful = progress.tool.side_effect is SideEffect.EFFECTFUL
        outcome = await self._attempt(progress)
        if _may_be_tried_again(outcome) and not effectful:
            outcome = await self._again(progress, outcome)
        return progress.answer(outcome)

    async def _again(
        self, progress: CallProgress, first: Output | ToolFailure
    ) -> Output | ToolFailure:
        limits = progress.tool.limits
        left_s = limits.timeout_s - (time.monotonic() - progress.started)
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_result(_may_be_tried_again),
            stop=tenacity.stop_after_attempt(limits.max_attempts)
            # No use in waiting for an attempt that would come too late.
            | tenacity.stop_before_delay(left_s),
            wait=_pause_s,
            retry_error_callback=_last_outcome,
        )
        made = iter([first])

        async def attempt() -> Output | ToolFailure:
            return next(made, None) or await self._attempt(progress)

        return await retrying(attempt)

    async def _attempt(self, progress: CallProgress) -> Output | ToolFailure:
        progress.running = True
        with noting_secrets() as used:
            result = await self._invoke(progress.call, progress.tool)
        progress.running = False
        progress.results.append(result)
        outcome = await self._presentable(progress.call.tenant, result.outcome, used)
        return _checked(progress.tool, outcome)

    async def _presentable(
        self, tenant: str, outcome: Output | ToolFailure, used: UsedSecrets
    ) -> Output | ToolFailure:
        """Large answers of a tenant are searched for secrets while the event loop serves others."""
        size = len(outcome.message) if isinstance(outcome, ToolFailure) else outcome.size_bytes
        if size <= SEARCHED_AT_ONCE_BYTES_MAX:
            return _presentable(outcome, used)
        return await self._searching.run(tenant, lambda: _presentable(outcome, used))

    async def _invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        try:
            return await self._adapters[tool.kind].invoke(call, tool)
        except CallFailed as error:
            if error.unsent and not tool.charges_unsent:
                return AdapterResult(error.failure, NOTHING_USED, unsent=True)
            return AdapterResult(error.failure)
        except Exception as error:  # BLE001: an episode survives a tool that found our fault
            if isinstance(error, Unavailable) and tool.side_effect is not SideEffect.EFFECTFUL:
                # A part of the platform is away, which is no answer: the caller waits and repeats.
                raise
            log.exception("the adapter of kind %s failed", tool.kind.name)
            if is_shortage(error) and tool.side_effect is not SideEffect.EFFECTFUL:
                # Nor is a process that is short of memory, threads or files for a while.
                raise ShortOfResources from error
            message = f"{tool.name} could not be called because of a fault of the platform"
            return AdapterResult(ToolFailure(FailureKind.INTERNAL, message))


def _presentable(outcome: Output | ToolFailure, used: UsedSecrets) -> Output | ToolFailure:
    """An API that repeats our credentials must not put them into a trajectory."""

    def clean(text: str) -> str:
        return used.redact(whole_characters(text))

    if isinstance(outcome, ToolFailure):
        return replace(outcome, message=clean(outcome.message))
    content, same = clean(outcome.content), outcome.content_json is outcome.content
    files = tuple(
        replace(file, media_type=clean(file.media_type), data=used.redact_bytes(file.data))
        for file in outcome.files
    )
    calls = tuple(
        replace(call, id=clean(call.id), name=clean(call.name), arguments=clean(call.arguments))
        for call in outcome.function_calls
    )
    return replace(
        outcome,
        function_calls=calls,
        logprobs_json=used.redact_json(outcome.logprobs_json),
        content=content,
        content_json=content if same else used.redact_json(whole_characters(outcome.content_json)),
        files=files,
    )


def _checked(tool: ToolDefinition, outcome: Output | ToolFailure) -> Output | ToolFailure:
    if isinstance(outcome, ToolFailure):
        return replace(outcome, message=_cut(tool, outcome.message))
    if outcome.size_bytes > tool.limits.max_output_bytes:
        return too_large(tool)
    return result_failure(tool, outcome) or outcome


def _cut(tool: ToolDefinition, message: str) -> str:
    most = max(tool.limits.max_output_bytes, FAILURE_BYTES_MIN)
    raw = message.encode()
    return message if len(raw) <= most else raw[:most].decode(errors="ignore") + "..."


def too_large(tool: ToolDefinition) -> ToolFailure:
    message = (
        f"{tool.name} answered with more than {tool.limits.max_output_bytes} bytes; "
        "ask for less, or raise limits.max_output_bytes"
    )
    return ToolFailure(FailureKind.OUTPUT_TOO_LARGE, message)


def _may_be_tried_again(outcome: Output | ToolFailure) -> bool:
    return isinstance(outcome, ToolFailure) and outcome.retryable


def _pause_s(state: tenacity.RetryCallState) -> float:
    outcome = _last_outcome(state)
    asked_s = outcome.retry_after_s if isinstance(outcome, ToolFailure) else None
    return max(BACKOFF(state), asked_s or 0.0)


def _last_outcome(state: tenacity.RetryCallState) -> Output | ToolFailure:
    assert state.outcome is not None
    outcome: Output | ToolFailure = state.outcome.result()
    return outcome


def _usage_when_cut(call: ToolCall, tool: ToolDefinition) -> Usage:
    """Returns the adapter's count; a model that was cut off has read its prompt at least."""
    if call.cut.usage is not None:
        return call.cut.usage
    if call.cut.unsent and not tool.charges_unsent:
        return NOTHING_USED
    if tool.kind.has_models:
        file_tokens = sum(file.attachment.estimated_tokens for file in call.files)
        return estimated_usage(f"{call.context}{call.task}", "", file_tokens)
    return ONE_CALL


def _sku(call: ToolCall, tool: ToolDefinition) -> str:
    """The SKU of the requested model, also for a call that was cut off."""
    if isinstance(tool.connection, LlmConnection):
        skus = {model.alias: model.sku for model in tool.connection.models}
        return skus.get(call.model_alias, "")
    return tool.sku


def _sum(usages: list[Usage]) -> Usage:
    """One usage for all attempts; as uncertain as the most uncertain of them."""
    sources = {usage.source for usage in usages}
    source = next((one for one in SOURCES if one in sources), UsageSource.MEASURED)
    request_ids = [usage.provider_request_id for usage in usages if usage.provider_request_id]
    unusable_reason = next(filter(None, (usage.unusable_reason for usage in usages)), "")
    request_id = request_ids[-1] if request_ids else ""
    service_class = usages[-1].service_class if usages else ""
    return Usage(Usage.total(usages), source, request_id, unusable_reason, service_class)


# Failures of the model's server; any other would be the same with another model.
PASSED_ON = {FailureKind.UNAVAILABLE, FailureKind.RATE_LIMITED, FailureKind.TIMEOUT}


async def first_answer(
    call: ToolCall, tool: ToolDefinition, make: Callable[[ToolCall, float], Awaitable[Answer]]
) -> Answer:
    """Returns the first answer of the models in turn; `make` gets the call and its seconds.

    Only a model that used nothing is replaced: what was paid for is not bought twice, and so the
    answer has one model and one price.
    """
    until = time.monotonic() + tool.limits.timeout_s
    candidates = _candidates(call, tool)
    answer = await make(next(candidates), tool.limits.timeout_s)
    for candidate in candidates:
        left_s = until - time.monotonic()
        if left_s <= 0 or not _may_be_passed_on(answer):
            break
        answer = await make(candidate, left_s)
    return answer


def _candidates(call: ToolCall, tool: ToolDefinition) -> Iterator[ToolCall]:
    yield call
    others = (alias for alias in call.fallback_models if alias in tool.aliases)
    yield from (call.asking(alias) for alias in others if alias != call.model_alias)


def _may_be_passed_on(answer: Answer) -> bool:
    outcome = answer.outcome
    failed = isinstance(outcome, ToolFailure) and outcome.kind in PASSED_ON
    return failed and not answer.usage.quantities
