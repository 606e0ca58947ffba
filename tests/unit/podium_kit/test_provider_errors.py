"""Errors as providers were recorded to send them, and what each means for the call."""

from typing import Any

import pytest

from podium_kit.failures import FailureKind
from podium_kit.models.provider_errors import ProviderError

DENIED, LIMITED, LONG = (
    FailureKind.PERMISSION_DENIED,
    FailureKind.RATE_LIMITED,
    FailureKind.CONTEXT_TOO_LONG,
)
AWAY, FAULT, MISSING = (
    FailureKind.UNAVAILABLE,
    FailureKind.TOOL_ERROR,
    FailureKind.NOT_FOUND,
)


def openai(message: str = "", code: object = None, type: str = "", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code, **more}}


def gemini(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "status": status, "message": message, "details": list(details)}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "is_retryable"),
    [
        # Limits that pass, and quotas that do not.
        (429, openai("Rate limit reached", "rate_limit_exceeded", "tokens"), LIMITED, True),
        (429, openai("You exceeded your quota", "insufficient_quota"), LIMITED, False),
        (429, openai("x", "project_spend_limit_exceeded"), LIMITED, False),
        (429, openai("Request too large: the output tokens must be reduced"), LONG, False),
        (402, {"type": "error", "error": {"type": "billing_error"}}, LIMITED, False),
        (402, openai("Insufficient Balance"), LIMITED, False),
        (
            400,
            {"type": "error", "error": {"message": "Your credit balance is too low"}},
            LIMITED,
            False,
        ),
        (
            429,
            [gemini(429, "RESOURCE_EXHAUSTED", "", {"quotaId": "RequestsPerDayPerModel"})],
            LIMITED,
            False,
        ),
        (429, [gemini(429, "RESOURCE_EXHAUSTED", "")], LIMITED, True),
        (429, {"message": "Too many tokens, please wait before trying again."}, LIMITED, True),
        (400, {"message": "ServiceQuotaExceededException"}, LIMITED, False),
        (403, {"error": {"code": "Arrearage", "message": "overdue"}}, LIMITED, False),
        # Keys and models.
        (401, openai("Incorrect API key provided", "invalid_api_key"), DENIED, False),
        (400, {"code": "invalid", "error": "Incorrect API key provided: xx"}, DENIED, False),
        (400, [gemini(400, "INVALID_ARGUMENT", "", {"reason": "API_KEY_INVALID"})], DENIED, False),
        (404, openai("No such model", "model_not_found"), MISSING, False),
        (400, openai("a/b is not a valid model ID", 400), MISSING, False),
        (400, {"message": "The provided model identifier is invalid."}, MISSING, False),
        # Prompts that do not fit.
        (400, openai("maximum context length is 8192", "context_length_exceeded"), LONG, False),
        (400, openai("Your input exceeds the context window of this model."), LONG, False),
        (
            400,
            {"type": "error", "error": {"message": "prompt is too long: 9 tokens > 8"}},
            LONG,
            False,
        ),
        (413, {"type": "error", "error": {"type": "request_too_large"}}, LONG, False),
        (
            400,
            [gemini(400, "INVALID_ARGUMENT", "exceeds the maximum number of tokens allowed (8).")],
            LONG,
            False,
        ),
        (400, {"message": "Input is too long for requested model."}, LONG, False),
        (
            400,
            {"object": "error", "message": "Prompt contains 9 tokens, too large for model"},
            LONG,
            False,
        ),
        (400, openai("Range of input length should be [1, 8]"), LONG, False),
        (400, {"code": "invalid", "error": "maximum prompt length is 8 but ..."}, LONG, False),
        (403, openai("input + `max_tokens` must be <= 8193"), LONG, False),
        (
            422,
            {"error": "`inputs` tokens + `max_new_tokens` must be <= 8", "error_type": "x"},
            LONG,
            False,
        ),
        (400, openai("The decoder prompt is longer than the maximum model length"), LONG, False),
        (400, openai("the request exceeds the available context size"), LONG, False),
        # Filters.
        (400, openai("The response was filtered", "content_filter"), FAULT, False),
        (400, openai("inappropriate content", "data_inspection_failed"), FAULT, False),
        (
            403,
            openai("moderation", 403, metadata={"reasons": ["x"], "flagged_input": "y"}),
            FAULT,
            False,
        ),
        # Servers that are busy or unwell.
        (503, openai("busy", "server_is_overloaded"), AWAY, True),
        (529, {"type": "error", "error": {"type": "overloaded_error"}}, AWAY, True),
        (498, openai("capacity", "capacity_exceeded"), AWAY, True),
        (424, {"error": "generation failed", "error_type": "generation"}, AWAY, True),
        (409, openai("conflict"), AWAY, True),
        (500, openai("boom", "server_error"), FAULT, True),
        (520, "<html>", FAULT, True),
        # Anything else is the caller's fault.
        (418, openai("teapot"), FAULT, False),
        (400, "not json", FAULT, False),
        (400, {}, FAULT, False),
        # Within a stream whose status was 200.
        (200, openai("boom", None, "server_error"), FAULT, True),
        (200, {"type": "error", "error": {"type": "overloaded_error"}}, AWAY, True),
        (200, gemini(503, "UNAVAILABLE", "busy"), AWAY, True),
        (200, openai("upstream", 502), AWAY, True),
        (200, {"type": "error", "code": "rate_limit_exceeded", "message": "x"}, LIMITED, True),
        (
            200,
            {"type": "response.failed", "response": {"error": {"code": "server_error"}}},
            FAULT,
            True,
        ),
        (200, openai("x", "tool_use_failed", status_code=400), FAULT, False),
    ],
)
def test_the_meaning_of_an_error(
    status: int, body: object, kind: FailureKind, is_retryable: bool
) -> None:
    error = ProviderError.read(status, {}, body)
    assert error is not None
    assert (error.kind, error.is_retryable) == (kind, is_retryable), error


@pytest.mark.parametrize(
    "body", [{"choices": []}, {"error": None, "choices": []}, {"type": "ping"}, [], [1], 1, None]
)
def test_an_event_without_an_error_is_none(body: object) -> None:
    assert ProviderError.read(200, {}, body) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (openai("out of tea"), "out of tea"),
        ([gemini(400, "X", "no such field")], "no such field"),
        ({"code": "invalid", "error": "no such model"}, "no such model"),
        ({"message": "denied"}, "denied"),
        ({"object": "error", "message": {"detail": [{"msg": "Extra inputs"}]}}, "Extra inputs"),
        ({"detail": [{"msg": "one"}, {"msg": "two"}]}, "one; two"),
        ({"detail": "not found"}, "not found"),
        ("plain words", "plain words"),
        ({}, ""),
    ],
)
def test_the_message_of_every_envelope_is_found(body: object, message: str) -> None:
    error = ProviderError.read(400, {}, body)
    assert error is not None
    assert error.message == message


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        (openai("x", param="max_tokens"), "max_tokens"),
        ({"message": {"detail": [{"loc": ["body", "stream_options"]}]}}, "stream_options"),
        (openai("x"), ""),
    ],
)
def test_the_rejected_parameter_is_named(body: object, parameter: str) -> None:
    error = ProviderError.read(400, {}, body)
    assert error is not None
    assert error.parameter == parameter


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"retry-after": "2"}, "Please try again in 9s", 2.0),
        ({}, "Please try again in 644ms. Visit us.", 0.644),
        ({}, "Please try again in 9m38.016s.", 578.016),
        ({}, "Please retry after 12 seconds.", 12.0),
        ({}, "Please try again later", None),
    ],
)
def test_the_time_to_wait_is_read(
    headers: dict[str, str], message: str, seconds: float | None
) -> None:
    error = ProviderError.read(429, headers, openai(message))
    assert error is not None
    assert error.retry_after_s == (None if seconds is None else pytest.approx(seconds))


def test_geminis_delay_is_read() -> None:
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "14s"}
    error = ProviderError.read(429, {}, [gemini(429, "RESOURCE_EXHAUSTED", "wait", delay)])
    assert error is not None
    assert error.retry_after_s == 14.0


def test_a_provider_decides_about_retries_of_its_errors() -> None:
    never = ProviderError.read(500, {"x-should-retry": "false"}, openai("x"))
    always = ProviderError.read(400, {"x-should-retry": "true"}, openai("x"))
    assert never and always
    assert (never.is_retryable, always.is_retryable) == (False, True)


def test_errors_of_aws_are_named_by_a_header() -> None:
    headers = {"x-amzn-errortype": "ServiceQuotaExceededException:http://x"}
    error = ProviderError.read(400, headers, {"message": "no more"})
    assert error is not None
    assert (error.kind, error.is_retryable) == (LIMITED, False)


def test_an_error_of_any_depth_and_size_is_read() -> None:
    deep: dict[str, Any] = {"message": "deep"}
    for _ in range(900):
        deep = {"message": deep, "object": deep, "error": None}
    assert ProviderError.read(400, {}, deep) is not None
    assert ProviderError.read(200, {}, deep) is None
    long = ProviderError.read(429, {}, openai("x" * 10_000_000 + " insufficient_quota"))
    assert long is not None
    assert long.is_retryable
