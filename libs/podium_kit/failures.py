"""A failed call is a ToolFailure, never a string that looks like a result."""

from dataclasses import dataclass
from enum import StrEnum


class FailureKind(StrEnum):
    INVALID_ARGUMENTS = "invalid_arguments"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    RATE_LIMITED = "rate_limited"
    PERMISSION_DENIED = "permission_denied"
    TOOL_ERROR = "tool_error"
    MALFORMED_OUTPUT = "malformed_output"
    OUTPUT_TOO_LARGE = "output_too_large"
    LIMIT_EXCEEDED = "limit_exceeded"
    NOT_FOUND = "not_found"
    DENIED_BY_POLICY = "denied_by_policy"
    BUDGET_EXHAUSTED = "budget_exhausted"
    CANCELLED = "cancelled"
    MALFORMED_ACTION = "malformed_action"
    INTERNAL = "internal"
    CONTEXT_TOO_LONG = "context_too_long"
    BLOCKED = "blocked"


@dataclass(frozen=True)
class ToolFailure:
    """A call failed. The message names cause and fix and holds no secret."""

    kind: FailureKind
    message: str
    retryable: bool = False
    retry_after_s: float | None = None
