import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import CallFailed
from tool_adapters.llm.apis import AnthropicMessages, LlmApiFormat, OpenAiChat
from tool_adapters.llm.completion import StreamedCompletion
from tool_adapters.llm.stream import read_completion

STARTED = {
    "type": "message_start",
    "message": {"id": "m", "usage": {"input_tokens": 12, "output_tokens": 1}},
}


class Stream:
    status = 200

    def __init__(self, *events: object) -> None:
        self.headers = {"content-type": "text/event-stream"}
        self._events = events

    async def chunks(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield f"data: {json.dumps(event)}\n\n".encode()


async def failure_of(api: LlmApiFormat, *events: object) -> ToolFailure:
    arriving: Any = Stream(*events)
    with pytest.raises(CallFailed, match="the model server broke off: no") as failed:
        await read_completion(arriving, api, StreamedCompletion(), 65_536)
    return failed.value.failure


def anthropic_error(name: object) -> dict[str, object]:
    return {"type": "error", "error": {"type": name, "message": "no"}}


@pytest.mark.parametrize(
    ("api", "event", "kind", "retryable"),
    [
        (AnthropicMessages(), anthropic_error("overloaded_error"), "UNAVAILABLE", True),
        (AnthropicMessages(), anthropic_error("rate_limit_error"), "RATE_LIMITED", True),
        (AnthropicMessages(), anthropic_error(["new"]), "TOOL_ERROR", False),
        (OpenAiChat(), {"error": {"code": 503, "message": "no"}}, "UNAVAILABLE", True),
        (OpenAiChat(), {"error": {"code": "bad", "message": "no"}}, "TOOL_ERROR", False),
        (OpenAiChat(), {"error": "no"}, "TOOL_ERROR", False),
    ],
)
async def test_an_error_in_a_stream_is_what_its_status_would_have_been(
    api: LlmApiFormat, event: object, kind: str, retryable: bool
) -> None:
    failure = await failure_of(api, event)
    assert (failure.kind, failure.retryable) == (FailureKind[kind], retryable)


async def test_what_was_bought_is_not_bought_again() -> None:
    failure = await failure_of(AnthropicMessages(), STARTED, anthropic_error("overloaded_error"))
    assert (failure.kind, failure.retryable) == (FailureKind.UNAVAILABLE, False)


def test_a_class_of_service_that_is_no_name_is_not_reported() -> None:
    completion = StreamedCompletion()
    completion.serve("flex")
    for tier in ("\0", "\ud83d", "a\nb", None, 5, ["flex"]):
        completion.serve(tier)
    assert completion.service_class == "flex"
