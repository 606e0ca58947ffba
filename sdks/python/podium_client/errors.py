"""Errors of the client: rejections, lost connections, and episodes without an answer."""

from collections.abc import Mapping
from typing import Any

from podium_client.models import Episode


class PodiumError(Exception):
    """The base of this library's errors."""


class ConfigurationError(PodiumError):
    """The platform's URL or the key is missing."""


class ConnectionFailed(PodiumError):
    """No answer came, also not to the repetitions of the request."""


class EpisodeUnanswered(PodiumError):
    """The episode ended without an answer; `episode` says why."""

    def __init__(self, episode: Episode) -> None:
        why = episode.failure.message if episode.failure else ""
        stopped = episode.stop_reason or "without a reason"
        reason = stopped.removeprefix("STOP_REASON_").lower().replace("_", " ")
        super().__init__(f"episode {episode.id} ended: {reason}{': ' if why else ''}{why}")
        self.episode = episode


class ApiError(PodiumError):
    """The platform rejected a request; the message states cause and fix."""

    def __init__(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        # A proxy in between answers in a form of its own.
        given = body.get("error")
        error: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        self.status = status
        self.message = str(error.get("message") or f"HTTP {status}")
        self.reason = str(error.get("reason") or "")
        self.kind = str(error.get("type") or "")
        self.param: str | None = error.get("param")
        self.metadata: Mapping[str, str] = error.get("metadata") or {}
        self.request_id = str(body.get("request_id") or headers.get("x-request-id") or "")
        quoted = f" (request {self.request_id})" if self.request_id else ""
        super().__init__(f"{self.message}{quoted}")

    @classmethod
    def of(
        cls, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> "ApiError":
        """The error of the class that its status has."""
        kind = BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
        return kind(status, body, headers or {})


class BadRequest(ApiError):
    """400: the request is wrong, or does not fit the state that things are in."""


class Unauthenticated(ApiError):
    """401: no key, or one that does not work."""


class BudgetExhausted(ApiError):
    """402: no budget covers the first call."""


class PermissionDenied(ApiError):
    """403: the key may not do this."""


class NotFound(ApiError):
    """404: it does not exist for this tenant."""


class Conflict(ApiError):
    """409: the id is taken, or someone changed the same thing meanwhile."""


class RateLimited(ApiError):
    """429: more requests, open requests or running episodes than the tenant may have."""


class ServerError(ApiError):
    """5xx: the platform, or a part of it, does not work now."""


class Unavailable(ServerError):
    """503: a part of the platform is away."""


BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthenticated,
    402: BudgetExhausted,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    429: RateLimited,
    503: Unavailable,
}
# The status of an error that arrives inside a stream, by its type.
STATUS_BY_KIND = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "insufficient_quota": 402,
    "permission_error": 403,
    "rate_limit_error": 429,
}
