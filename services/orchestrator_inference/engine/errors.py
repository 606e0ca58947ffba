import email.utils
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx

from orchestrator_inference.errors import (
    ContextTooLong,
    EngineCredentialsRejected,
    EngineRateLimited,
    EngineRejected,
    EngineUnwell,
    ModelNotFound,
)
from podium_kit.models.context_length import says_too_long
from podium_kit.rpc.errors import DomainError

WHY_CHARS_MAX = 300
# An episode ends long before; a number that is no number of seconds counts as this too.
RETRY_AFTER_MAX_S = 86_400.0
# A server or a proxy took too long, had a lock held, or was asked too early: it passes.
PASSING = frozenset({408, 409, 425})


def fault_of(response: httpx.Response) -> Mapping[str, Any]:
    """The `error` object of a rejection, whichever of the usual shapes it has."""
    try:
        body = response.json()
    except ValueError:
        return {"message": response.text}
    fault = body.get("error", body) if isinstance(body, dict) else body
    return fault if isinstance(fault, dict) else {"message": str(fault)}


def rejection(host: str, model: str, response: httpx.Response, secret: str | None) -> DomainError:
    status = response.status_code
    fault = fault_of(response)
    why = _explained(fault, secret)
    if status in (401, 403):
        return EngineCredentialsRejected(host)
    if status == 429:
        return EngineRateLimited(host, retry_after_s(response))
    if status >= 500 or status in PASSING:
        return EngineUnwell(host, status, retry_after_s(response))
    if status in (400, 413, 422) and says_too_long(f"{fault.get('code') or ''} {why}"):
        return ContextTooLong(why)
    if status == 404 and "model" in why.lower():
        return ModelNotFound(model, [])
    return EngineRejected(host, status, why)


def retry_after_s(response: httpx.Response) -> float | None:
    """Seconds the engine asks to wait (RFC 9110, section 10.2.3); None when it does not say."""
    value = response.headers.get("retry-after", "")
    try:
        return min(max(0.0, float(value)), RETRY_AFTER_MAX_S)
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (moment.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds())


def _explained(fault: Mapping[str, Any], secret: str | None) -> str:
    why = str(fault.get("message") or fault.get("detail") or "no reason given")
    # Some servers quote the key they reject.
    return (why.replace(secret, "***") if secret else why)[:WHY_CHARS_MAX]
