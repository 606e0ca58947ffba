from dataclasses import replace
from typing import Any

from podium_kit.failures import FailureKind
from podium_kit.models.chat_parameters import REJECTED_STATUSES, ChatParameters
from podium_kit.models.context_length import says_too_long
from tool_adapters.adapter import CallFailed
from tool_adapters.http.client import (
    FAILURE_OF_STATUS,
    ArrivingReply,
    HttpReply,
    is_success,
    status_failure,
    too_many_bytes,
)
from tool_adapters.http.server_sent_events import event_data
from tool_adapters.llm.apis import LlmApiFormat, error_words
from tool_adapters.llm.completion import StreamedCompletion
from tool_adapters.replies import reply_json

# An event carries a few characters in an envelope of this size at most.
ENVELOPE_BYTES_MAX = 65536
# With which servers reject a prompt that does not fit.
TOO_LARGE_STATUSES = (400, 413, 422)
LAST_EVENT = "[DONE]"
# What an error in a stream is called, as the status that it would have had before.
STATUS_OF_ERROR = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "api_error": 500,
}
NOT_THE_API = (KeyError, IndexError, TypeError, AttributeError)


async def read_completion(
    arriving: ArrivingReply, api: LlmApiFormat, completion: StreamedCompletion, bytes_max: int
) -> None:
    """Fills the completion. Raises CallFailed; what arrived before stays in the completion."""
    streams = arriving.headers.get("content-type", "").startswith("text/event-stream")
    # Some servers name an error a stream, for that was asked for.
    if streams and is_success(arriving.status):
        await _read_stream(arriving, api, completion, bytes_max)
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
        if words := error_words(event):
            raise _broke_off(event["error"], words, completion)
        try:
            api.read_event(event, completion)
        except NOT_THE_API as error:
            raise _not_the_api() from error
        if completion.size_bytes > bytes_max:
            raise too_many_bytes(bytes_max)
    if not completion.reason:
        message = "the model's answer ended in the middle"
        raise CallFailed(FailureKind.MALFORMED_OUTPUT, message, retryable=not completion.texts)


def _broke_off(error: Any, words: str, completion: StreamedCompletion) -> CallFailed:
    """The failure that the status would have meant; what was bought is not bought again."""
    fault = error if isinstance(error, dict) else {}
    status = STATUS_OF_ERROR.get(str(fault.get("type")), fault.get("code"))
    known = FAILURE_OF_STATUS.get(status) if isinstance(status, int) else None
    kind, retryable = known or (FailureKind.TOOL_ERROR, False)
    unused = not completion.texts and not completion.report
    return CallFailed(kind, f"the model server broke off: {words}", retryable and unused)


def require_success(reply: HttpReply) -> None:
    words = _words(reply)
    if failure := status_failure(reply, words):
        too_long = reply.status in TOO_LARGE_STATUSES and says_too_long(_code(reply) + words)
        kind = FailureKind.CONTEXT_TOO_LONG if too_long else failure.kind
        raise CallFailed.of(replace(failure, kind=kind))


def _read_reply(reply: HttpReply, api: LlmApiFormat, completion: StreamedCompletion) -> None:
    require_success(reply)
    try:
        api.read_reply(_object(reply.body), completion)
    except NOT_THE_API as error:
        raise _not_the_api() from error


def _code(reply: HttpReply) -> str:
    try:
        return str(reply_json(reply.body)["error"]["code"])
    except (CallFailed, ValueError, RecursionError, *NOT_THE_API):
        return ""


def _words(reply: HttpReply) -> str:
    try:
        return error_words(reply_json(reply.body))
    except (CallFailed, ValueError, RecursionError):
        return ""


def _object(text: str | bytes) -> Any:
    try:
        return reply_json(text)
    except (ValueError, RecursionError) as error:
        raise _not_the_api() from error


def _not_the_api() -> CallFailed:
    message = "the model server answered something else than its API promises"
    return CallFailed(FailureKind.MALFORMED_OUTPUT, message)
