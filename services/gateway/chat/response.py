"""OpenAI's response objects, made from an outcome."""

from collections.abc import Iterator
from typing import Any

from gateway.chat.call_ids import CallId
from gateway.chat.outcomes import finish_reason
from gateway.models import COMPLETION, PROMPT, Outcome
from gateway.sse import data
from podium_kit.metering import Dimension

Json = dict[str, Any]
CHUNK_CHARACTERS = 400


def completion(outcome: Outcome, model: str, created: int) -> Json:
    """A chat.completion. Raises the error of an episode without an answer."""
    calls = _tool_calls(outcome)
    # OpenAI's messages with calls have no content, and those without have no list of calls.
    message = {
        "role": "assistant",
        "content": None if calls else outcome.answer,
        "refusal": None,
        **({"tool_calls": calls} if calls else {}),
    }
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": finish_reason(outcome),
        "logprobs": None,
    }
    return {
        **_head(outcome.episode_id, "chat.completion", model, created),
        "choices": [choice],
        "usage": usage(outcome),
        "podium": podium(outcome),
    }


def _tool_calls(outcome: Outcome) -> list[Json]:
    return [
        {
            "id": str(CallId(outcome.episode_id, call.turn, call.index)),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in outcome.client_calls
    ]


def usage(outcome: Outcome) -> Json:
    """Tokens of the orchestrator and of llm tools together, for this request."""
    prompt, completed = outcome.tokens(PROMPT), outcome.tokens(COMPLETION)
    cached = outcome.tokens(frozenset({Dimension.CACHE_READ}))
    reasoning = outcome.tokens(frozenset({Dimension.REASONING}))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completed,
        "total_tokens": prompt + completed,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def podium(outcome: Outcome) -> Json:
    """What OpenAI's fields cannot say. A cost of null is unknown, not zero."""
    cost = outcome.cost
    return {
        "episode_id": outcome.episode_id,
        "stop_reason": outcome.stop_reason and outcome.stop_reason.value,
        "cost": cost and {"amount": cost.amount_string(), "currency_code": cost.currency_code},
        "unpriced_calls": outcome.unpriced_call_count,
        "turns": outcome.turn_count,
        "tool_calls": outcome.tool_call_count,
        "policy": {"name": outcome.policy_name, "version": outcome.policy_version},
    }


class Chunks:
    """The chat.completion.chunk objects of one stream, as server-sent events."""

    def __init__(self, episode_id: str, model: str, created: int) -> None:
        self._head = _head(episode_id, "chat.completion.chunk", model, created)

    def opening(self) -> bytes:
        """Says who speaks, and that the request was accepted."""
        return self._delta({"role": "assistant", "content": ""})

    def reasoning(self, line: str) -> bytes:
        return self._delta({"reasoning_content": line})

    def closing(self, outcome: Outcome, include_usage: bool) -> Iterator[bytes]:
        """The answer, the finish reason and, when asked for, the usage.

        Raises the error of an episode without an answer.
        """
        reason = finish_reason(outcome)
        for index, call in enumerate(_tool_calls(outcome)):
            yield from self._tool_call(index, call)
        for start in range(0, len(outcome.answer), CHUNK_CHARACTERS):
            yield self._delta({"content": outcome.answer[start : start + CHUNK_CHARACTERS]})
        yield self._delta({}, reason, {"podium": podium(outcome)})
        if include_usage:
            yield data({**self._head, "choices": [], "usage": usage(outcome)})
        yield b"data: [DONE]\n\n"

    def _tool_call(self, index: int, call: Json) -> Iterator[bytes]:
        """First which function, then its arguments: clients put the parts together by index."""
        function = {**call["function"], "arguments": ""}
        yield self._delta({"tool_calls": [{"index": index, **call, "function": function}]})
        arguments = {"arguments": call["function"]["arguments"]}
        yield self._delta({"tool_calls": [{"index": index, "function": arguments}]})

    def _delta(self, delta: Json, reason: str | None = None, extra: Json | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return data({**self._head, "choices": [choice], **(extra or {})})


def _head(episode_id: str, kind: str, model: str, created: int) -> Json:
    return {
        "id": f"chatcmpl-{episode_id}",
        "object": kind,
        "created": created,
        "model": model,
        "system_fingerprint": None,
    }
