import json
from collections.abc import AsyncIterator
from typing import Any

from gateway.chat.outcomes import finish_reason, stopped
from gateway.chat.response import call_id, podium, usage
from gateway.chat.runs import Run
from gateway.chat.streaming import StreamedText
from gateway.http.error_responses import error_body
from gateway.messages.request import MessageRequest
from gateway.models import AnswerPart, Outcome
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
            "id": call_id(outcome.episode_id, call),
            "name": call.name,
            "input": _input(call.arguments),
        }
        for call in outcome.client_calls
    ]
    texts = [{"type": "text", "text": outcome.answer}] if outcome.answer or not calls else []
    return [*texts, *calls]


def _input(arguments: str) -> Json:
    """The arguments of a call; a model without an orchestrator may have written anything."""
    try:
        found = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"arguments": arguments}


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
    stops = request.stop_sequences or ()
    text, begins = StreamedText(stops), True
    try:
        async for event in run.events(with_parts=True):
            if isinstance(event, AnswerPart) and (ready := text.add(event.text)):
                if begins:
                    yield _start(0, {"type": "text", "text": ""})
                begins = False
                yield _text_delta(0, ready)
            elif isinstance(event, Outcome):
                whole = message(stopped(event, stops), request.model)
    except DomainError as error:
        problem = error_body(error)["error"]
        yield _event("error", error={"type": problem["type"], "message": problem["message"]})
        return
    for index, block in enumerate(whole["content"]):
        if block["type"] == "tool_use":
            yield _start(index, {**block, "input": {}})
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield _event("content_block_delta", index=index, delta=delta)
        else:
            if begins:
                yield _start(index, {**block, "text": ""})
            for chunk in text.rest(block["text"]):
                yield _text_delta(index, chunk)
        yield _event("content_block_stop", index=index)
    stop = {name: whole[name] for name in ("stop_reason", "stop_sequence")}
    yield _event("message_delta", delta=stop, usage=whole["usage"], podium=whole["podium"])
    yield _event("message_stop")


def _start(index: int, block: Json) -> bytes:
    return _event("content_block_start", index=index, content_block=block)


def _text_delta(index: int, text: str) -> bytes:
    return _event("content_block_delta", index=index, delta={"type": "text_delta", "text": text})


def _event(kind: str, **fields: Any) -> bytes:
    text = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()
