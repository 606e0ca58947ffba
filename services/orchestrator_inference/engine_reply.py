"""The JSON of a chat completion -> Completion."""

import logging
from collections.abc import Mapping
from typing import Any

from metering import Usage, UsageSource
from orchestrator_inference.budgets import estimated_tokens
from orchestrator_inference.engine import ModelCall
from orchestrator_inference.models import Completion, NativeCall

log = logging.getLogger(__name__)


class NotACompletion(ValueError):
    """The body lacks what every chat completion has."""


def completion_from(
    body: Mapping[str, Any], call: ModelCall, *, latency_s: float, constrained: bool
) -> Completion:
    """The completion. Raises NotACompletion."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        token_ids = tuple(choice.get("token_ids") or ())
        native_calls = tuple(_native_call(entry) for entry in message.get("tool_calls") or ())
        return Completion(
            text=message.get("content") or "",
            finish_reason=choice.get("finish_reason") or "",
            usage=_usage(body, call, message.get("content") or ""),
            model_version=body.get("model") or call.model.name,
            engine=call.model.engine if constrained else f"{call.model.engine} (unconstrained)",
            latency_s=latency_s,
            prompt_token_ids=tuple(body.get("prompt_token_ids") or ()),
            token_ids=token_ids,
            logprobs=_logprobs(choice, token_ids),
            native_calls=native_calls,
            constrained=constrained,
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise NotACompletion(f"the completion lacks {error}") from error


def _native_call(entry: Mapping[str, Any]) -> NativeCall:
    function = entry["function"]
    return NativeCall(entry.get("id") or "", function["name"], function.get("arguments") or "")


def _logprobs(choice: Mapping[str, Any], token_ids: tuple[int, ...]) -> tuple[float, ...]:
    entries = (choice.get("logprobs") or {}).get("content") or ()
    if len(entries) != len(token_ids):
        # Without ids they belong to nothing; training must not guess.
        log.warning("%d log-probabilities for %d token ids", len(entries), len(token_ids))
        return ()
    return tuple(float(entry["logprob"]) for entry in entries)


def _usage(body: Mapping[str, Any], call: ModelCall, text: str) -> Usage:
    reported = body.get("usage")
    if not reported:
        prompt = sum(estimated_tokens(message.content) for message in call.messages)
        return Usage.of(
            UsageSource.ESTIMATED, input_fresh=prompt, output_text=estimated_tokens(text)
        )
    prompt, output = reported.get("prompt_tokens") or 0, reported.get("completion_tokens") or 0
    cached = _detail(reported, "prompt_tokens_details", "cached_tokens", prompt)
    reasoning = _detail(reported, "completion_tokens_details", "reasoning_tokens", output)
    usage = Usage.of(
        UsageSource.PROVIDER,
        input_fresh=prompt - cached,
        cache_read=cached,
        output_text=output - reasoning,
        reasoning=reasoning,
    )
    return Usage(usage.quantities, usage.source, body.get("id") or "")


def _detail(reported: Mapping[str, Any], group: str, name: str, whole: int) -> int:
    """A part of a token count; never more than the whole it is part of."""
    return min((reported.get(group) or {}).get(name) or 0, whole)
