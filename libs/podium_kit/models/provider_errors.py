"""Errors of providers of language models, in whichever shape they come.

A provider reports an error as an object, a list with one object, a text, or beside the answer's
fields; its status alone does not say whether a retry can help: a 429 may mean a quota that is used
up, a 400 a wrong key. Sources: the API references of OpenAI, Azure, Anthropic, Gemini, Bedrock,
Mistral, DeepSeek, DashScope, xAI, Groq, Together, Fireworks, OpenRouter, vLLM, TGI and Ollama.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from podium_kit.failures import FailureKind
from podium_kit.http_headers import RETRY_AFTER_MAX_S, retry_after_s

DEPTH_MAX = 6
# A message is read by people; a body of megabytes would be searched on the event loop.
CHARACTERS_MAX = 16_384
_OF_STATUS = {
    401: (FailureKind.PERMISSION_DENIED, False),
    402: (FailureKind.RATE_LIMITED, False),
    403: (FailureKind.PERMISSION_DENIED, False),
    404: (FailureKind.NOT_FOUND, False),
    408: (FailureKind.TIMEOUT, True),
    409: (FailureKind.UNAVAILABLE, True),
    # A dependency of the provider failed, or its generation did.
    424: (FailureKind.UNAVAILABLE, True),
    425: (FailureKind.UNAVAILABLE, True),
    429: (FailureKind.RATE_LIMITED, True),
    # Groq's "capacity exceeded".
    498: (FailureKind.UNAVAILABLE, True),
    500: (FailureKind.TOOL_ERROR, True),
    502: (FailureKind.UNAVAILABLE, True),
    503: (FailureKind.UNAVAILABLE, True),
    504: (FailureKind.TIMEOUT, True),
    # Anthropic's "overloaded".
    529: (FailureKind.UNAVAILABLE, True),
}
# Names of errors within a stream, as the statuses that they would have had before it.
_STATUS_OF_NAME = {
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "internalserverexception": 500,
    "modelstreamerrorexception": 424,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "resource_exhausted": 429,
    "throttlingexception": 429,
    "modelnotreadyexception": 503,
    "overloaded": 503,
    "overloaded_error": 529,
    "server_is_overloaded": 503,
    "serviceunavailableexception": 503,
    "slow_down": 503,
    "unavailable": 503,
    "timeout_error": 504,
    "modeltimeoutexception": 504,
}


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_TOO_LONG = _words(
    r"context_length_exceeded|maximum (context|model|prompt) length|context (length|window|size)",
    r"too many tokens|maximum number of tokens allowed|prompt is too long|request_too_large",
    r"input is too long|exceed model maximum|too large for model|range of input length",
    r"input tokens exceed the configured limit|must be <= \d+|reduce the length of",
    r"`inputs` tokens \+ `max_new_tokens` must be|tokens must be reduced|exceed context limit",
    r"current length is \d+ while limit is",
)
# A provider that limits tokens a minute says the same of a prompt that fits.
_PASSING_TOO_LONG = _words(r"too many tokens, please wait")
_QUOTA = _words(
    r"insufficient_quota|credit_balance_exhausted|spend_limit|usage_limit_exceeded",
    r"billing_hard_limit|billing_error|credit balance is too low|insufficient balance",
    r"ran out of credits|arrearage|servicequotaexceeded|per ?day|limit: 0\b|billing account",
    r"enable billing|account .{0,40}suspended",
)
_WRONG_KEY = _words(r"incorrect api key|api_key_invalid|api key not valid|invalid_api_key")
_UNKNOWN_MODEL = _words(
    r"is not a valid model id|model identifier is invalid|model_not_found|deploymentnotfound"
)
_FILTERED = _words(r"content_filter|data_inspection_failed|flagged_input|responsibleaipolicy")
_DELAY = _words(
    r"(?:try again|retry) (?:in|after) ((?:\d{1,9}(?:\.\d{1,9})? ?(?:ms|h|m|s)[a-z]{0,6} ?){1,4})"
)
_PART_OF_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(ms|h|m|s)")
# Gemini's RetryInfo is a text of its own: "14s".
_RETRY_INFO = re.compile(r"^(\d{1,9}(?:\.\d{1,9})?s)$", re.MULTILINE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class ProviderError:
    """An error as its provider reports it, and its consequence for the call."""

    status: int
    kind: FailureKind
    is_retryable: bool
    retry_after_s: float | None
    message: str
    parameter: str
    """The rejected parameter; "" when none is named."""

    @classmethod
    def read(cls, status: int, headers: Mapping[str, str], body: object) -> "ProviderError | None":
        """The error of a reply or of an event within it; None when there is none.

        `body` is the parsed JSON, or the text of a body that is none; `headers` have lower-case
        names.
        """
        fault = _fault(body, status)
        if fault is None:
            return None
        named = headers.get("x-amzn-errortype", "")
        words = "\n".join([named, *texts_of(fault)])[:CHARACTERS_MAX]
        meant = _status(status, fault, headers)
        kind, is_retryable = _meaning(meant, words)
        wanted_s = retry_after_s(headers)
        with suppress(KeyError):
            decided = {"true": True, "false": False}[headers.get("x-should-retry", "")]
            is_retryable = decided and kind is not FailureKind.CONTEXT_TOO_LONG
        return cls(
            meant,
            kind,
            is_retryable,
            _delay_s(words) if wanted_s is None else wanted_s,
            _message(fault),
            next(named_parameters(fault), ""),
        )


def _meaning(status: int, words: str) -> tuple[FailureKind, bool]:
    if status < 500 and _TOO_LONG.search(words) and not _PASSING_TOO_LONG.search(words):
        return FailureKind.CONTEXT_TOO_LONG, False
    if status < 500 and _QUOTA.search(words):
        return FailureKind.RATE_LIMITED, False
    if status == 400 and _WRONG_KEY.search(words):
        return FailureKind.PERMISSION_DENIED, False
    if status == 400 and _UNKNOWN_MODEL.search(words):
        return FailureKind.NOT_FOUND, False
    if status < 500 and _FILTERED.search(words):
        return FailureKind.TOOL_ERROR, False
    return _OF_STATUS.get(status, (FailureKind.TOOL_ERROR, status >= 500))


def _fault(body: object, status: int) -> Any:
    """The part of a body that describes an error; None for a body without one."""
    if isinstance(body, list) and body and isinstance(body[0], Mapping):
        return _fault(body[0], status)
    if not isinstance(body, Mapping):
        return body if status >= 400 else None
    if error := body.get("error"):
        # xAI gives the code beside the text.
        return {**body, "message": error} if isinstance(error, str) else error
    failed = body.get("response")
    if body.get("type") == "response.failed" and isinstance(failed, Mapping):
        return failed.get("error") or {"message": "the response failed"}
    is_error = body.get("type") == "error" or body.get("object") in ("error", "Error")
    return body if is_error or status >= 400 else None


def _status(status: int, fault: Any, headers: Mapping[str, str]) -> int:
    """The status; within a stream, the one that the error would have had before it."""
    if status >= 400:
        return status
    given = fault if isinstance(fault, Mapping) else {}
    named = [given.get(name) for name in ("code", "status_code", "status", "type", "error_type")]
    named.append(headers.get("x-amzn-errortype", "").partition(":")[0])
    for name in named:
        if isinstance(name, int) and not isinstance(name, bool) and 400 <= name < 600:
            return name
        if isinstance(name, str) and (known := _STATUS_OF_NAME.get(name.lower())):
            return known
    return status


def _message(fault: Any, depth: int = DEPTH_MAX) -> str:
    """The provider's words for a person; "" when there are none."""
    if isinstance(fault, str):
        return fault
    given = fault if isinstance(fault, Mapping) else {}
    for name in ("message", "detail", "msg", "error"):
        value = given.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, Mapping | list) and depth:
            parts = value if isinstance(value, list) else [value]
            if inner := [text for each in parts if (text := _message(each, depth - 1))]:
                return "; ".join(inner)
    return ""


def named_parameters(fault: Any, depth: int = DEPTH_MAX) -> Iterator[str]:
    """Parameters named as a field: `param` of OpenAI, `loc` of FastAPI and Mistral."""
    if isinstance(fault, Mapping):
        if isinstance(fault.get("param"), str) and fault["param"]:
            yield fault["param"]
        place = fault.get("loc")
        if isinstance(place, list) and place and isinstance(place[-1], str):
            yield place[-1]
    if isinstance(fault, Mapping | list) and depth:
        for part in fault.values() if isinstance(fault, Mapping) else fault:
            yield from named_parameters(part, depth - 1)


def texts_of(fault: Any, depth: int = DEPTH_MAX) -> Iterator[str]:
    """Yields every text of an error, names of fields too."""
    if isinstance(fault, str):
        yield fault
    elif isinstance(fault, Mapping | list) and depth:
        for part in fault.items() if isinstance(fault, Mapping) else [(each,) for each in fault]:
            for each in part:
                yield from texts_of(each, depth - 1)


def _delay_s(words: str) -> float | None:
    if (found := _DELAY.search(words) or _RETRY_INFO.search(words)) is None:
        return None
    parts = _PART_OF_DELAY.findall(found[1])
    return min(sum(float(amount) * _SECONDS[unit] for amount, unit in parts), RETRY_AFTER_MAX_S)
