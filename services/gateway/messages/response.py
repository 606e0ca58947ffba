import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from gateway.chat.call_ids import CallId
from gateway.chat.outcomes import finish_reason, stopped
from gateway.chat.response import CHUNK_CHARACTERS, podium, usage
from gateway.chat.runs import Run
from gateway.http.error_responses import error_body
from gateway.messages.request import MessageRequest
from gateway.models import Outcome
from podium_kit.rpc.errors import DomainError

Json = dict[str, Any]
STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


def message(outcome: Outcome, model: str) -> Json:
    reason = STOP_REASONS[finish_reason(outcome)]
    return {
        **_head(outcome.episode_id, model),
        "content": _content(outcome),
        "stop_reason": "stop_sequence" if outcome.stop_sequence else reason,
        "stop_sequence": outcome.stop_sequence or None,
        "usage": _usage(outcome),
        "podium": podium(outcome),
    }


def _head(episode_id: str, model: str) -> Json:
    return {
        "id": f"msg_{episode_id}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def _content(outcome: Outcome) -> list[Json]:
    calls = [
        {
            "type": "tool_use",
            "id": str(CallId(outcome.episode_id, call.turn, call.index)),
            "name": call.name,
            "input": json.loads(call.arguments),
        }
        for call in outcome.client_calls
    ]
    return calls or [{"type": "text", "text": outcome.answer}]


def _usage(outcome: Outcome) -> Json:
    found = usage(outcome)
    cached = found["prompt_tokens_details"]["cached_tokens"]
    return {
        "input_tokens": found["prompt_tokens"] - cached,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": found["completion_tokens"],
    }


async def answered(run: Run, request: MessageRequest) -> Json:
    outcome = stopped(await run.outcome(), request.stop_sequences or ())
    return message(outcome, request.model)


async def streamed(run: Run, request: MessageRequest) -> AsyncIterator[bytes]:
    """Streams a message to its end, or to an error event: the status line was sent before."""
    yield _event("message_start", message=_head(run.episode_id, request.model))
    try:
        whole = await answered(run, request)
    except DomainError as error:
        said = error_body(error)["error"]
        yield _event("error", error={"type": said["type"], "message": said["message"]})
        return
    for index, block in enumerate(whole["content"]):
        for event in _block(index, block):
            yield event
    stop = {name: whole[name] for name in ("stop_reason", "stop_sequence")}
    yield _event("message_delta", delta=stop, usage=whole["usage"], podium=whole["podium"])
    yield _event("message_stop")


def _block(index: int, block: Json) -> Iterator[bytes]:
    empty: Json = {"input": {}} if block["type"] == "tool_use" else {"text": ""}
    yield _event("content_block_start", index=index, content_block={**block, **empty})
    for delta in _deltas(block):
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _deltas(block: Json) -> Iterator[Json]:
    if block["type"] == "tool_use":
        yield {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        return
    text = block["text"]
    for start in range(0, len(text), CHUNK_CHARACTERS):
        yield {"type": "text_delta", "text": text[start : start + CHUNK_CHARACTERS]}


def _event(kind: str, **fields: Any) -> bytes:
    text = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()
