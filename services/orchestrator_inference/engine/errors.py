"""An engine's HTTP errors as domain errors."""

from typing import Any

from orchestrator_inference.engine.client import EngineReply
from orchestrator_inference.errors import (
    ContextTooLong,
    EngineCredentialsRejected,
    EngineRateLimited,
    EngineRejected,
    EngineUnwell,
    ModelNotFound,
)
from podium_kit.failures import FailureKind
from podium_kit.models.provider_errors import ProviderError
from podium_kit.rpc.errors import DomainError

WHY_CHARS_MAX = 300


def body_of(reply: EngineReply) -> Any:
    """The JSON of a rejection, or its text."""
    try:
        return reply.json()
    except ValueError:
        return reply.text


def rejection(host: str, model: str, reply: EngineReply, secret: str | None) -> DomainError:
    """The error a reply that is no success means."""
    error = ProviderError.read(reply.status, reply.headers, body_of(reply))
    kind = error.kind if error else FailureKind.TOOL_ERROR
    why = (error.message if error else "") or "no reason given"
    # Some servers quote the key they reject.
    why = (why.replace(secret, "***") if secret else why)[:WHY_CHARS_MAX]
    if kind is FailureKind.PERMISSION_DENIED:
        return EngineCredentialsRejected(host)
    if kind is FailureKind.CONTEXT_TOO_LONG:
        return ContextTooLong(why)
    if kind is FailureKind.NOT_FOUND and "model" in why.lower():
        return ModelNotFound(model, [])
    if error is None or not error.is_retryable:
        return EngineRejected(host, reply.status, why)
    return broken_off(host, error)


def broken_off(host: str, error: ProviderError) -> DomainError:
    """The error that an event of a stream means: what was accepted before is tried again."""
    if error.kind is FailureKind.RATE_LIMITED:
        return EngineRateLimited(host, error.retry_after_s)
    return EngineUnwell(host, error.status, error.retry_after_s)
