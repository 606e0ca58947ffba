from dataclasses import replace
from http import HTTPStatus
from typing import Any

from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.models.chat_parameters import REJECTED_STATUSES, ChatParameters
from podium_kit.models.provider_errors import ProviderError
from podium_kit.server_sent_events import EventTooLarge, event_data
from tool_adapters.adapter import CallFailed, reply_json
from tool_adapters.http.client import (
    ArrivingReply,
    HttpReply,
    is_success,
    status_failure,
    too_many_bytes,
)
from tool_adapters.llm.apis import LlmApiFormat, note_report
from tool_adapters.llm.completion import StreamedCompletion

# An event carries a few characters in an envelope of this size at most.
ENVELOPE_BYTES_MAX = 65536
# Some hundred bytes for each of up to 21 alternatives of a token.
LOGPROBS_BYTES_MAX = 8 * 1024 * 1024
LAST_EVENT = "[DONE]"
NOT_THE_API = (KeyError, IndexError, TypeError, AttributeError)


async def read_completion(
    arriving: ArrivingReply, api: LlmApiFormat, completion: StreamedCompletion, bytes_max: int
) -> None:
    """Fills the completion. Raises CallFailed; what arrived before stays in the completion."""
    streams = arriving.headers.get("content-type", "").startswith("text/event-stream")
    # Some servers name an error a stream, for that was asked for.
    if streams and is_success(arriving.status):
        try:
            await _read_stream(arriving, api, completion, bytes_max)
        except EventTooLarge as error:
            raise too_many_bytes(bytes_max) from error
    else:
        _read_reply(await arriving.whole(bytes_max + ENVELOPE_BYTES_MAX), api, completion)


async def learnt_from(
    arriving: ArrivingReply, parameters: ChatParameters, bytes_max: int
) -> ChatParameters | None:
    """Other parameters to ask the model with; None for a reply to be read.

    Raises CallFailed for a rejection that teaches nothing.
    """
    if arriving.status not in REJECTED_STATUSES:
        return None
    reply = await arriving.whole(bytes_max)
    try:
        learnt = parameters.learnt(reply.status, reply_json(reply.body))
    except (CallFailed, ValueError, RecursionError):
        learnt = parameters
    if learnt == parameters:
        require_success(reply)
    return learnt


async def _read_stream(
    arriving: ArrivingReply, api: LlmApiFormat, completion: StreamedCompletion, bytes_max: int
) -> None:
    async for data in event_data(arriving.chunks(), bytes_max + ENVELOPE_BYTES_MAX):
        if data == LAST_EVENT:
            break
        event = _object(data)
        if fault := ProviderError.read(HTTPStatus.OK, {}, event):
            raise _broke_off(fault, event, completion)
        try:
            api.read_event(event, completion)
        except NOT_THE_API as error:
            raise _not_the_api() from error
        if completion.size_bytes > bytes_max:
            raise too_many_bytes(bytes_max)
        if completion.logprobs_bytes > LOGPROBS_BYTES_MAX:
            raise too_many_bytes(LOGPROBS_BYTES_MAX)
    if not completion.reason:
        message = "the model's answer ended in the middle"
        raise CallFailed(FailureKind.MALFORMED_OUTPUT, message, retryable=not completion.has_begun)


def _broke_off(error: ProviderError, event: Any, completion: StreamedCompletion) -> CallFailed:
    """The failure of a completion that broke off: bought tokens are not bought again."""
    if isinstance(event, dict):
        note_report(event, completion)
    unused = not completion.has_begun and not completion.report
    message = f"the model server broke off: {error.message or error.kind.value}"
    retryable = error.is_retryable and unused
    return CallFailed.of(ToolFailure(error.kind, message, retryable, error.retry_after_s))


def require_success(reply: HttpReply) -> None:
    """Raises CallFailed with the server's words."""
    if is_success(reply.status):
        return
    error = ProviderError.read(reply.status, reply.headers, _json_or_text(reply))
    failure = status_failure(reply, error.message if error else "")
    assert failure is not None
    if error is not None:
        failure = replace(
            failure,
            kind=error.kind,
            retryable=error.is_retryable,
            retry_after_s=error.retry_after_s,
        )
    raise CallFailed.of(failure)


def _read_reply(reply: HttpReply, api: LlmApiFormat, completion: StreamedCompletion) -> None:
    require_success(reply)
    answer = _object(reply.body)
    if fault := ProviderError.read(reply.status, {}, answer):
        raise _broke_off(fault, answer, completion)
    try:
        api.read_reply(answer, completion)
    except NOT_THE_API as error:
        raise _not_the_api() from error


def _json_or_text(reply: HttpReply) -> Any:
    try:
        return reply_json(reply.body)
    except (CallFailed, ValueError, RecursionError):
        return reply.text


def _object(text: str | bytes) -> Any:
    try:
        return reply_json(text)
    except (ValueError, RecursionError) as error:
        raise _not_the_api() from error


def _not_the_api() -> CallFailed:
    message = "the model server answered something else than its API promises"
    return CallFailed(FailureKind.MALFORMED_OUTPUT, message)
