import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from gateway.chat.call_ids import CallId
from gateway.chat.client_tools import input_of
from gateway.chat.outcomes import finish_reason, has_answer
from gateway.chat.streaming import StreamedText
from gateway.http.sse import data
from gateway.models import AnswerPart, CallPart, ClientCall, Outcome
from podium_kit.metering import COMPLETION_TOKENS, PROMPT_TOKENS, Dimension
from podium_kit.money import Money

Json = dict[str, Any]


def completion(
    outcomes: Mapping[int, Outcome], model: str, created: int, custom: Set[str] = frozenset()
) -> Json:
    answered = {index: each for index, each in outcomes.items() if has_answer(each)}
    return {
        **_head(_first_id(outcomes), "chat.completion", model, created),
        "choices": [_choice(*each, custom) for each in answered.items()],
        "usage": usage(*outcomes.values()),
        "podium": podium_of(outcomes),
    }


def _choice(index: int, outcome: Outcome, custom: Set[str]) -> Json:
    calls = _tool_calls(outcome, custom)
    # OpenAI's messages with calls have no content, and those without have no list of calls.
    message = {
        "role": "assistant",
        "content": (outcome.answer or None) if calls else outcome.answer,
        "refusal": None,
        **({"tool_calls": calls} if calls else {}),
    }
    return {
        "index": index,
        "message": message,
        "finish_reason": finish_reason(outcome),
        "logprobs": logprobs(outcome),
    }


def logprobs(outcome: Outcome) -> Json | None:
    if not outcome.logprobs_json:
        return None
    return {"content": None, "refusal": None, **json.loads(outcome.logprobs_json)}


def _tool_calls(outcome: Outcome, custom: Set[str]) -> list[Json]:
    calls: list[Json] = []
    for call in outcome.client_calls:
        made = {"id": call_id(outcome.episode_id, call)}
        if call.name in custom:
            text = {"name": call.name, "input": input_of(call.arguments)}
            calls.append({**made, "type": "custom", "custom": text})
        else:
            function = {"name": call.name, "arguments": call.arguments}
            calls.append({**made, "type": "function", "function": function})
    return calls


def call_id(episode_id: str, call: ClientCall) -> str:
    """The id by which a result names a call: a model's own, or one that names the episode."""
    return call.id or str(CallId(episode_id, call.turn, call.index))


def usage(*outcomes: Outcome) -> Json:
    """Tokens of the orchestrator and of llm tools together, for this request."""
    prompt, completed = _tokens(outcomes, PROMPT_TOKENS), _tokens(outcomes, COMPLETION_TOKENS)
    cached = _tokens(outcomes, frozenset({Dimension.CACHE_READ}))
    reasoning = _tokens(outcomes, frozenset({Dimension.REASONING}))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completed,
        "total_tokens": prompt + completed,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def _tokens(outcomes: Iterable[Outcome], dimensions: frozenset[Dimension]) -> int:
    return sum(outcome.tokens(dimensions) for outcome in outcomes)


def podium_of(outcomes: Mapping[int, Outcome]) -> Json:
    if len(outcomes) == 1:
        [outcome] = outcomes.values()
        return podium(outcome)
    known = [outcome.cost for outcome in outcomes.values() if outcome.cost is not None]
    return {
        "episode_id": _first_id(outcomes),
        "cost": cost_json(sum(known[1:], start=known[0])) if known else None,
        "unpriced_calls": sum(outcome.unpriced_call_count for outcome in outcomes.values()),
        "choices": [{"index": index, **podium(each)} for index, each in outcomes.items()],
    }


def _first_id(outcomes: Mapping[int, Outcome]) -> str:
    return outcomes[min(outcomes)].episode_id


def cost_json(cost: Money | None) -> Json | None:
    if cost is None:
        return None
    return {"amount": cost.amount_string(), "currency_code": cost.currency_code}


def podium(outcome: Outcome) -> Json:
    """Returns facts that OpenAI's fields cannot express. A cost of null is unknown, not zero."""
    return {
        "episode_id": outcome.episode_id,
        "stop_reason": outcome.stop_reason and outcome.stop_reason.value,
        "cost": cost_json(outcome.cost),
        "unpriced_calls": outcome.unpriced_call_count,
        "turns": outcome.turn_count,
        "tool_calls": outcome.tool_call_count,
        "all_tool_calls_failed": outcome.all_tool_calls_failed,
        "policy": {"name": outcome.policy_name, "version": outcome.policy_version},
        **({"cached": True} if outcome.cached else {}),
        **({"warnings": [*outcome.warnings]} if outcome.warnings else {}),
    }


class Chunks:
    """The chat.completion.chunk objects of one stream, as server-sent events."""

    def __init__(
        self,
        episode_id: str,
        model: str,
        created: int,
        *,
        include_usage: bool,
        custom: Set[str] = frozenset(),
        stops: Sequence[str] = (),
    ) -> None:
        self._custom = custom
        self._stops = stops
        self._texts: dict[int, StreamedText] = {}
        # By choice, the model's numbers of calls in the order in which they began.
        self._calls: dict[int, list[int]] = {}
        self._head = _head(episode_id, "chat.completion.chunk", model, created)
        self._include_usage = include_usage
        if include_usage:
            # In every chunk, as OpenAI does: its numbers are in the last one.
            self._head["usage"] = None

    def opening(self, choice: int, may_call: bool) -> bytes:
        """Says who speaks, and that the request was accepted. What may become calls begins without
        a text, as OpenAI's does: its client would tell of an empty one."""
        return self._delta(choice, {"role": "assistant", "content": None if may_call else ""})

    def reasoning(self, choice: int, line: str) -> bytes:
        return self._delta(choice, {"reasoning_content": line})

    def part(self, choice: int, part: AnswerPart) -> Iterator[bytes]:
        if content := self._text(choice).add(part.text):
            yield self._delta(choice, {"content": content})
        for piece in part.calls if not self._custom else ():
            yield self._delta(choice, {"tool_calls": [self._piece(choice, piece)]})

    def choice(self, choice: int, outcome: Outcome) -> Iterator[bytes]:
        reason = finish_reason(outcome)
        for content in self._text(choice).rest(outcome.answer):
            yield self._delta(choice, {"content": content})
        sent = len(self._calls.get(choice, ()))
        for index, call in enumerate(_tool_calls(outcome, self._custom)):
            if index >= sent:
                yield from self._tool_call(choice, index, call)
        last = {"podium": podium(outcome)}
        yield self._delta(choice, {}, reason, last, logprobs(outcome))

    def _text(self, choice: int) -> StreamedText:
        return self._texts.setdefault(choice, StreamedText(self._stops))

    def _piece(self, choice: int, piece: CallPart) -> Json:
        begun = self._calls.setdefault(choice, [])
        if piece.index not in begun:
            begun.append(piece.index)
        head = {"id": piece.id, "type": "function"} if piece.id else {}
        named = {"name": piece.name} if piece.name else {}
        function = {**named, "arguments": piece.arguments}
        return {"index": begun.index(piece.index), **head, "function": function}

    def closing(self, outcomes: Mapping[int, Outcome]) -> bytes:
        last = {**self._head, "choices": [], "usage": usage(*outcomes.values())}
        return (data(last) if self._include_usage else b"") + b"data: [DONE]\n\n"

    def _tool_call(self, choice: int, index: int, call: Json) -> Iterator[bytes]:
        """First which function, then its arguments: clients put the parts together by index."""
        kind = call["type"]
        part = "arguments" if kind == "function" else "input"
        begun = {"index": index, **call, kind: {**call[kind], part: ""}}
        yield self._delta(choice, {"tool_calls": [begun]})
        rest = {"index": index, kind: {part: call[kind][part]}}
        yield self._delta(choice, {"tool_calls": [rest]})

    def _delta(
        self,
        index: int,
        delta: Json,
        reason: str | None = None,
        extra: Json | None = None,
        probabilities: Json | None = None,
    ) -> bytes:
        choice = {
            "index": index,
            "delta": delta,
            "finish_reason": reason,
            "logprobs": probabilities,
        }
        return data({**self._head, "choices": [choice], **(extra or {})})


def _head(episode_id: str, kind: str, model: str, created: int) -> Json:
    return {
        "id": f"chatcmpl-{episode_id}",
        "object": kind,
        "created": created,
        "model": model,
        "system_fingerprint": None,
    }
