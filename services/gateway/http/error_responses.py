from collections.abc import Mapping
from math import ceil
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse

from gateway.errors import BudgetExhausted, MalformedRequest
from gateway.origin import current_origin, note_rejection
from podium_kit.rpc import errors

# A name that a client made up may have megabytes.
PARAM_CHARACTERS_MAX = 200
# How pydantic calls a whole body that is no object.
NO_OBJECT = ("missing", "model_attributes_type")
# The type of a validation error about a part of a message.
INVALID_PART = "invalid_part"


def malformed_request(error: RequestValidationError) -> MalformedRequest:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        fault, place = first["ctx"]["error"], first["loc"][-1]
        return MalformedRequest(f"the body is not JSON: {fault} at character {place}")
    if first["loc"] == ("body",) and first["type"] in NO_OBJECT:
        # JSON holds no bytes: the body was not read as such.
        unread = isinstance(first["input"], bytes)
        fix = "; send it with the header Content-Type: application/json" if unread else ""
        return MalformedRequest(f"the body must be a JSON object{fix}")
    param = ".".join(str(part) for part in first["loc"][1:])[:PARAM_CHARACTERS_MAX] or None
    where = f"{param}: " if param else ""
    code = first["ctx"]["code"].upper() if first["type"] == INVALID_PART else None
    return MalformedRequest(f"{where}{first['msg']}", param=param, reason=code)


# HTTP status and OpenAI's error type, by the error's base class.
HTTP_OF: dict[type[errors.DomainError], tuple[int, str]] = {
    errors.InvalidArgument: (400, "invalid_request_error"),
    errors.FailedPrecondition: (400, "invalid_request_error"),
    errors.Unauthenticated: (401, "authentication_error"),
    errors.PermissionDenied: (403, "permission_error"),
    errors.NotFound: (404, "invalid_request_error"),
    BudgetExhausted: (402, "insufficient_quota"),
    errors.AlreadyExists: (409, "invalid_request_error"),
    errors.Aborted: (409, "server_error"),
    errors.ResourceExhausted: (429, "rate_limit_error"),
    errors.Unavailable: (503, "server_error"),
    errors.DeadlineExceeded: (504, "server_error"),
}
FAULT = (500, "server_error")
# When to ask again for what is away, unless the error knows better.
RETRY_AFTER_S = 2
# The field of the request that errors raised by the services are about.
PARAM_OF_REASON = {
    "MODEL_NOT_FOUND": "model",
    "POLICY_NOT_FOUND": "policy",
    "TOOL_NOT_FOUND": "tools",
    "TOOL_NOT_ALLOWED": "tools",
}
CHARACTERS_MAX = 2_000
ErrorBody = dict[str, Any]


def http_status(error: errors.DomainError) -> tuple[int, str]:
    """HTTP status and OpenAI error type of the nearest base class in the table."""
    for base in type(error).__mro__:
        if base in HTTP_OF:
            return HTTP_OF[base]
    return FAULT


def error_body(error: errors.DomainError) -> ErrorBody:
    """`reason` is stable and for machines; `code` is the same as OpenAI spells it."""
    return _body(
        message=_cut(error.message),
        type=http_status(error)[1],
        param=_cut(error.metadata.get("param", "")) or PARAM_OF_REASON.get(error.reason),
        code=error.reason.lower(),
        reason=error.reason,
        metadata={key: _cut(value) for key, value in error.metadata.items()},
    )


def _body(**error: object) -> ErrorBody:
    """OpenAI's clients read `error`; Anthropic's have `type` and the id beside it."""
    return {"type": "error", "error": error, "request_id": current_origin().request_id}


def _cut(text: str) -> str:
    """No answer echoes megabytes of what was sent."""
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}..."


def error_response(error: errors.DomainError) -> JSONResponse:
    status, headers = http_status(error)[0], {}
    if status == 403:
        note_rejection(error.reason)
    if error.retry_after_s is not None or status == 503:
        headers["retry-after"] = str(ceil(error.retry_after_s or RETRY_AFTER_S))
    if retryable := error.metadata.get("retryable"):
        headers["x-should-retry"] = retryable
    return JSONResponse(error_body(error), status, headers)


def plain_error_response(
    status: int, message: str, reason: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """An HTTP error no domain error stands for, for example 405 or 413."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    body = _body(
        message=message, type=kind, param=None, code=reason.lower(), reason=reason, metadata={}
    )
    return JSONResponse(body, status, headers)


async def on_domain_error(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, errors.DomainError):
        raise error
    return error_response(error)
