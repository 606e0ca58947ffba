from collections.abc import Iterable
from uuid import UUID

from gateway.audit.models import Claimant
from podium_kit.rpc.errors import (
    DeadlineExceeded,
    DomainError,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)


class MissingApiKey(Unauthenticated):
    def __init__(self) -> None:
        super().__init__(
            "no API key or token; send the header 'Authorization: Bearer pod_...' "
            "(a tenant's admin creates keys with POST /v1/api-keys)"
        )


class CredentialRejected(DomainError):
    """Its owner goes into the tenant's audit log, and not to the caller."""

    claimant: Claimant | None = None


class InvalidApiKey(Unauthenticated, CredentialRejected):
    def __init__(self, claimant: Claimant | None = None) -> None:
        self.claimant = claimant
        super().__init__(
            "the API key is not valid; check that it was copied whole (pod_<id>_<secret>), "
            "or ask your tenant's admin for a new one"
        )


class ExpiredApiKey(Unauthenticated, CredentialRejected):
    def __init__(self, key_id: str, claimant: Claimant) -> None:
        self.claimant = claimant
        super().__init__(f"API key {key_id} has expired; create a new one", key_id=key_id)


class RevokedApiKey(Unauthenticated, CredentialRejected):
    def __init__(self, key_id: str, claimant: Claimant) -> None:
        self.claimant = claimant
        super().__init__(f"API key {key_id} was revoked; create a new one", key_id=key_id)


class SessionEnded(Unauthenticated):
    def __init__(self) -> None:
        super().__init__("you are signed out of the console, or were idle for long; sign in again")


class ForeignRequest(Unauthenticated):
    """A cookie that another site, or the address bar, had the browser send."""

    def __init__(self) -> None:
        super().__init__(
            "the console's cookie counts only for requests of the console's own pages;"
            " send the header 'Authorization: Bearer pod_...'"
        )


class CsrfTokenMissing(PermissionDenied):
    def __init__(self) -> None:
        super().__init__(
            "a change made with the console's cookie needs the header X-Podium-CSRF, with the"
            " csrf_token of GET /v1/session; load the page again"
        )


class JsonExpected(InvalidArgument):
    def __init__(self) -> None:
        super().__init__(
            "with the console's cookie a body is JSON; send it with Content-Type: application/json"
        )


class KeyNeededToSignIn(InvalidArgument):
    def __init__(self) -> None:
        super().__init__(
            "signing in here takes an API key, as 'Authorization: Bearer pod_...';"
            " an identity provider's people sign in at the console"
        )


class SignInFailed(Unauthenticated):
    """The identity provider did not sign the person in; the message is its reason."""


class ViewNotFound(NotFound):
    def __init__(self, view_id: UUID) -> None:
        super().__init__(f"there is no view {view_id} that you may delete", view_id=view_id)


class TooManyViews(ResourceExhausted):
    def __init__(self, views_max: int) -> None:
        super().__init__(
            f"you have {views_max} saved views; delete one first",
            views_max=views_max,
            # Nothing changes within a client's retries.
            retryable="false",
        )


class ApiKeyNotFound(NotFound):
    def __init__(self, key_id: str) -> None:
        super().__init__(f"there is no API key {key_id}", key_id=key_id)


class ApiKeyEnded(FailedPrecondition):
    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"API key {key_id} was revoked, has expired or was rotated already; create a new one",
            key_id=key_id,
        )


class ScopeNotGrantable(PermissionDenied):
    def __init__(self, scope: str) -> None:
        super().__init__(
            f"you cannot grant the scope {scope}, nor rotate or revoke a key that has it; "
            "use a key with that scope",
            scope=scope,
            param="scopes",
        )


class UnknownScope(InvalidArgument):
    def __init__(self, scope: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown scope {scope!r}; known are {', '.join(known)}", param="scopes")


class InvalidApiKeyRequest(InvalidArgument):
    """The key that is asked for could never be used."""


class WrongTenant(PermissionDenied, CredentialRejected):
    def __init__(self, claimant: Claimant, expected: str) -> None:
        self.claimant, tenant = claimant, claimant.tenant
        super().__init__(
            f"this credential belongs to tenant {tenant}, not {expected}; "
            f"use one of {expected}, or leave the header X-Podium-Tenant out",
            tenant=tenant,
        )


class InvalidToken(Unauthenticated):
    """The OIDC token is not one this gateway trusts; the message says why."""


class NoRole(PermissionDenied, CredentialRejected):
    def __init__(self, claimant: Claimant, claim: str, names: Iterable[str]) -> None:
        self.claimant, subject = claimant, claimant.subject
        given = ", ".join(names) or "nothing"
        super().__init__(
            f"{subject} has no role here: the token's claim {claim} says {given}; "
            "ask the platform's admin to map one of them to a role"
        )


class IdentityProviderUnavailable(Unavailable):
    def __init__(self, issuer: str) -> None:
        super().__init__(f"the identity provider {issuer} does not answer; try again")


class InvalidLimits(InvalidArgument):
    def __init__(self) -> None:
        super().__init__(
            "limits must be positive: requests_per_s above 0, burst, concurrency and "
            "running_episodes at least 1, files and file_bytes at least 0"
        )


class TooManyRequests(ResourceExhausted):
    """The tenant sends more requests, or has more of them open, than it may."""


class ServerBusy(Unavailable):
    """Large bodies take turns, so that together they do not take all memory."""

    def __init__(self) -> None:
        super().__init__("many large requests arrive at once; send yours again", retry_after_s=1)


class UnsupportedParameter(InvalidArgument):
    def __init__(self, name: str, fix: str = "leave it out") -> None:
        super().__init__(f"the parameter {name} is not supported here; {fix}", param=name)


class UnknownMcpServer(InvalidArgument):
    def __init__(self, server: str) -> None:
        super().__init__(
            f"no MCP server {server[:200]!r} is registered; have its tools registered with"
            " `podium tools import-mcp` or POST /v1/followed-mcp-servers; server_url is the"
            " registered URL, without one server_label is the operator's name of the server",
            param="tools",
        )


class NothingAllowed(InvalidArgument):
    def __init__(self, label: str) -> None:
        super().__init__(
            f"the policy allows none of the tools of {label[:200]!r} that the request names;"
            " `podium policies explain` says why",
            param="tools",
        )


class InvalidChat(InvalidArgument):
    """The messages cannot become a task."""


class InvalidAnswerSchema(InvalidArgument):
    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"the JSON Schema of {name} cannot be used: {problem}", param=name)


class ModelNotFound(NotFound):
    def __init__(self, model: str, known: Iterable[str], policies: Iterable[str]) -> None:
        super().__init__(
            f"there is no model {model!r}; models are {', '.join(known)}, each also with a policy "
            f"as <model>:<policy>; policies are {', '.join(policies)}",
            param="model",
        )


class ResponseNotFound(NotFound):
    def __init__(self, response_id: str) -> None:
        super().__init__(f"there is no response {response_id[:100]}", param="response_id")


class ResponseStillRuns(FailedPrecondition):
    def __init__(self, episode_id: str, param: str) -> None:
        super().__init__(
            f"episode {episode_id}, which this continues, still runs; wait for its answer,"
            " or cancel it",
            episode_id=episode_id,
            param=param,
        )


class InvalidEpisodeId(InvalidArgument):
    """Episodes are ordered by their ids, so these carry their time."""

    def __init__(self, given: str) -> None:
        super().__init__(
            f"episode id {given!r} is not a UUIDv7; send one, leave it out, "
            "or send any text as the header Idempotency-Key instead",
            param="episode_id",
        )


class InvalidIdempotencyKey(InvalidArgument):
    def __init__(self, characters_max: int) -> None:
        super().__init__(
            f"Idempotency-Key must have 1 to {characters_max} characters, and none of them NUL",
            param="Idempotency-Key",
        )


class MalformedRequest(InvalidArgument):
    """The body or the query does not fit the API."""


class UnknownRoute(NotFound):
    def __init__(self, method: str, path: str) -> None:
        super().__init__(f"there is no {method} {path}; see /openapi.json")


class StartUnknown(Unavailable):
    def __init__(self, episode_id: str) -> None:
        super().__init__(
            f"it is not known whether episode {episode_id} was started; ask "
            f"GET /v1/episodes/{episode_id}, or send the same request again: it finds the episode",
            episode_id=episode_id,
        )


class AnswerTooLate(DeadlineExceeded):
    def __init__(self, episode_id: str, wait_s: float) -> None:
        super().__init__(
            f"no answer within {wait_s:g} s; episode {episode_id} continues, "
            f"follow it at /v1/episodes/{episode_id}/events",
            episode_id=episode_id,
            retryable="false",
        )


class CallTooLate(DeadlineExceeded):
    def __init__(self, call_id: str, wait_s: float) -> None:
        super().__init__(
            f"no answer within {wait_s:g} s; direct call {call_id} continues, "
            f"ask for it at /v1/direct-calls/{call_id}",
            call_id=call_id,
            retryable="false",
        )


class WatchLost(Unavailable):
    def __init__(self, episode_id: str) -> None:
        super().__init__(
            f"episode {episode_id} continues, but its progress cannot be read now; "
            f"follow it at /v1/episodes/{episode_id}/events",
            episode_id=episode_id,
            # The same request again would be a second episode.
            retryable="false",
        )


class CallLost(Unavailable):
    def __init__(self, call_id: str) -> None:
        super().__init__(
            f"direct call {call_id} continues, but what came of it cannot be read now; "
            f"ask for it at /v1/direct-calls/{call_id}",
            call_id=call_id,
            # The same request again would be a second call.
            retryable="false",
        )


class CallMadeAgain(Unavailable):
    """A stream cannot take back what it sent of an answer that another process made anew."""

    def __init__(self, call_id: str) -> None:
        super().__init__(
            f"direct call {call_id} broke off while its answer was streamed, and was made again; "
            f"the whole answer is at /v1/direct-calls/{call_id}",
            call_id=call_id,
            # The same request again would be a second call.
            retryable="false",
        )


class AnswerMadeAgain(Unavailable):
    """A stream cannot take back what it sent of an answer that the model began anew."""

    def __init__(self, episode_id: str) -> None:
        super().__init__(
            f"the answer of episode {episode_id} broke off while it was streamed, and another one "
            f"followed; the whole answer is at /v1/episodes/{episode_id}",
            episode_id=episode_id,
            # The same request again would be a second episode.
            retryable="false",
        )


class EpisodeCancelled(FailedPrecondition):
    def __init__(self, episode_id: str) -> None:
        super().__init__(f"episode {episode_id} was cancelled", episode_id=episode_id)


class BudgetExhausted(ResourceExhausted):
    """No budget covers the episode's first call. No rate limit: waiting does not help."""


class UpstreamFault(DomainError):
    def __init__(self) -> None:
        super().__init__("a service failed; quote the request id to the operator of this platform")
