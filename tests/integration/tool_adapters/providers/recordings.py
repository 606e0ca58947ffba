"""Replies in the forms that providers of language models were recorded to send, case by case.

Sources: the providers' API references, and replies that their users published (November 2026).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

Json = dict[str, Any]
ANSWER = "It is 42."
LIMIT, AWAY, LONG = "RATE_LIMITED", "UNAVAILABLE", "CONTEXT_TOO_LONG"
DENIED, MISSING, FAULT = "PERMISSION_DENIED", "NOT_FOUND", "TOOL_ERROR"
DONE = "[DONE]"


@dataclass(frozen=True)
class Recording:
    """A reply: JSON, or events where there are some. `meaning` is the expected failure, or the
    finish reason of an answer. A failure that is `charged` was paid for as reported."""

    meaning: str = "stop"
    status: int = 200
    body: Any = None
    events: Sequence[Any] = ()
    headers: dict[str, str] = field(default_factory=dict)
    retried: bool = False
    estimated: bool = False
    charged: bool = False


@dataclass(frozen=True)
class Provider:
    """A provider's API, its form of a report, the quantities in it, and its errors by case."""

    api: str
    report: Json
    quantities: Mapping[str, int | Decimal]
    errors: dict[str, Recording]
    model: str = "small-model"
    first: tuple[Json, ...] = ()
    thought: str = "reasoning_content"
    list_content: bool = False

    def cases(self) -> dict[str, Recording]:
        return FORMS[self.api](self) | self.errors


def error(
    meaning: str, status: int, body: Any, *, retried: bool = False, **headers: str
) -> Recording:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Recording(meaning, status, body, headers=named, retried=retried)


def openai_error(message: str = "no", code: Any = None, type: Any = None, **more: Any) -> Json:
    return {"error": {"message": message, "type": type, "param": None, "code": code, **more}}


def _chat(delta: Json | None, finish: str | None = None, **more: Any) -> Json:
    choice = {"index": 0, "finish_reason": finish} | ({} if delta is None else {"delta": delta})
    return {"id": "chat_1", "object": "chat.completion.chunk", "choices": [choice], **more}


def _chat_cases(provider: Provider) -> dict[str, Recording]:
    report = {"id": "chat_1", "choices": [], "usage": provider.report}
    first = [*provider.first, _chat({"role": "assistant", "content": ""})]
    text: Any = [{"type": "text", "text": ANSWER}] if provider.list_content else ANSWER
    said, stop = _chat({"content": text}), _chat({}, "stop")
    thoughts = [_chat({provider.thought: "Six times seven"}), _chat({"content": None})]
    if provider.list_content:
        thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "Six times"}]}]
        thoughts = [_chat({"content": thinking})]

    def whole(message: Json, finish: str = "stop", **more: Any) -> Json:
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {"id": "chat_1", "choices": [choice], "usage": provider.report, **more}

    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
    return {
        "whole": Recording(body=whole({"role": "assistant", "content": text})),
        "stream": Recording(events=[*first, said, stop, report, DONE]),
        "reasoning": Recording(events=[*first, *thoughts, said, stop, report, DONE]),
        "tool call": Recording(
            "MALFORMED_OUTPUT",
            events=[*first, _chat({"tool_calls": [call]}), _chat({}, "tool_calls"), report, DONE],
        ),
        "length": Recording("length", events=[*first, said, _chat({}, "length"), report, DONE]),
        "filter": Recording(FAULT, events=[*first, _chat({}, "content_filter"), report, DONE]),
        "filter mid-stream": Recording(
            "content_filter", events=[*first, said, _chat({}, "content_filter"), report, DONE]
        ),
        "empty choices": Recording("MALFORMED_OUTPUT", body={"id": "1", "choices": []}),
        "null content": Recording(
            "MALFORMED_OUTPUT", body=whole({"role": "assistant", "content": None})
        ),
        "error in stream": Recording(
            FAULT, events=[*first, openai_error("boom", type="server_error")], retried=True
        ),
        "paid error": Recording(
            AWAY,
            events=[*first, _chat({}, "error", usage=provider.report, **openai_error(code=502))],
            charged=True,
        ),
        "no usage": Recording(events=[*first, said, stop, DONE], estimated=True),
        "usage early": Recording(events=[*first, report, said, stop, DONE]),
    }


def _responses_cases(provider: Provider) -> dict[str, Recording]:
    def response(status: str = "completed", **more: Any) -> Json:
        return {"id": "resp_1", "status": status, "output": [], "usage": provider.report, **more}

    def end(status: str = "completed", **more: Any) -> Json:
        return {"type": f"response.{status}", "response": response(status, **more)}

    created = {"type": "response.created", "response": {"id": "resp_1", "usage": None}}
    said = {"type": "response.output_text.delta", "delta": ANSWER}
    thought = {"type": "response.reasoning_summary_text.delta", "delta": "Six times seven"}
    message = {"type": "message", "content": [{"type": "output_text", "text": ANSWER}]}
    called = {"type": "response.function_call_arguments.delta", "delta": "{}"}
    filtered = {"incomplete_details": {"reason": "content_filter"}}
    flat = {"type": "error", "code": "server_error", "message": "boom", "param": None}
    return {
        "whole": Recording(body=response(output=[{"type": "reasoning"}, message])),
        "stream": Recording(events=[created, said, end()]),
        "reasoning": Recording(events=[created, thought, said, end()]),
        "tool call": Recording("MALFORMED_OUTPUT", events=[created, called, end()]),
        "length": Recording(
            "length",
            events=[
                created,
                said,
                end("incomplete", incomplete_details={"reason": "max_output_tokens"}),
            ],
        ),
        "filter": Recording(FAULT, events=[created, end("incomplete", **filtered)]),
        "filter mid-stream": Recording(
            "content_filter", events=[created, said, end("incomplete", **filtered)]
        ),
        "empty choices": Recording("MALFORMED_OUTPUT", body=response()),
        "null content": Recording("MALFORMED_OUTPUT", body=response(output=None)),
        "error in stream": Recording(FAULT, events=[created, flat], retried=True),
        "no usage": Recording(events=[created, said, end(usage=None)], estimated=True),
        "usage early": Recording(
            events=[{**created, "response": response("in_progress")}, said, end()]
        ),
    }


def _messages_cases(provider: Provider) -> dict[str, Recording]:
    def began(**usage: Any) -> Json:
        return {"type": "message_start", "message": {"id": "msg_1", "usage": usage}}

    def delta(kind: str, name: str, text: str) -> Json:
        return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, name: text}}

    def end(reason: str = "end_turn", usage: Json | None = provider.report) -> Json:
        return {"type": "message_delta", "delta": {"stop_reason": reason}} | (
            {"usage": usage} if usage else {}
        )

    first, stop = began(**provider.report), {"type": "message_stop"}
    said = delta("text_delta", "text", ANSWER)

    def whole(content: Any, reason: str = "end_turn") -> Json:
        return {"id": "msg_1", "content": content, "stop_reason": reason, "usage": provider.report}

    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    thinking = delta("thinking_delta", "thinking", "Six times seven")
    called = delta("input_json_delta", "partial_json", "{}")
    return {
        "whole": Recording(body=whole([{"type": "text", "text": ANSWER}])),
        "stream": Recording(events=[first, {"type": "ping"}, said, end(), stop]),
        "reasoning": Recording(events=[first, thinking, said, end(), stop]),
        "tool call": Recording("MALFORMED_OUTPUT", events=[first, called, end("tool_use"), stop]),
        "length": Recording("length", events=[first, said, end("max_tokens"), stop]),
        "filter": Recording(FAULT, events=[first, end("refusal"), stop]),
        "filter mid-stream": Recording("refusal", events=[first, said, end("refusal"), stop]),
        "empty choices": Recording("MALFORMED_OUTPUT", body=whole([])),
        "null content": Recording("MALFORMED_OUTPUT", body=whole(None)),
        "error in stream": Recording(AWAY, events=[began(), overloaded], retried=True),
        "no usage": Recording(events=[began(), said, end(usage=None), stop], estimated=True),
        "usage early": Recording(events=[first, said, end(usage=None), stop]),
    }


FORMS: dict[str, Callable[[Provider], dict[str, Recording]]] = {
    "OPENAI_CHAT": _chat_cases,
    "OPENAI_RESPONSES": _responses_cases,
    "ANTHROPIC_MESSAGES": _messages_cases,
}
