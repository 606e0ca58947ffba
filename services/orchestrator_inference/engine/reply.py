"""The JSON of a chat completion -> Completion."""

import logging
from collections.abc import Mapping
from typing import Any

from orchestrator_inference.engine.engine import ModelCall
from orchestrator_inference.models import Completion, NativeCall
from orchestrator_inference.prompt.budgets import estimated_tokens
from podium_kit.metering import Usage, UsageSource
from podium_kit.metering.usage_reports import vllm_usage

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
    usage = vllm_usage(reported, body.get("id")) if isinstance(reported, Mapping) else None
    if usage is not None:
        return usage
    prompt = sum(estimated_tokens(message.content) for message in call.messages)
    return Usage.of(UsageSource.ESTIMATED, input_fresh=prompt, output_text=estimated_tokens(text))
