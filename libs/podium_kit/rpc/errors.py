"""Domain errors: what went wrong, in words of the domain.

A service subclasses the class that fits (`class ToolNotFound(NotFound)`) and
raises it anywhere; only `podium_kit.rpc.interceptors` knows which gRPC status it means.
The reason on the wire is the class name in upper snake case (AIP-193).
"""

import re


class DomainError(Exception):
    """An error whose message may be shown to the caller: cause and fix, no secrets."""

    def __init__(self, message: str, /, **metadata: object) -> None:
        super().__init__(message)
        self.message = message
        self.metadata = {key: str(value) for key, value in metadata.items() if value is not None}

    @property
    def reason(self) -> str:
        given = self.metadata.get("reason")
        return given or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).upper()

    @property
    def retry_after_s(self) -> float | None:
        """Seconds that the caller should wait; None when unknown."""
        given = self.metadata.get("retry_after_s")
        return None if given is None else float(given)


def message_of(error: BaseException) -> str:
    """Returns the part of an error that may be logged: a domain error's message, or the kind."""
    if isinstance(error, DependencyAway) and error.cause:
        return f"{error.message} ({error.cause})"
    return error.message if isinstance(error, DomainError) else type(error).__name__


class InvalidArgument(DomainError):
    """The request is wrong whatever the state of the system."""


class NotFound(DomainError):
    """The named thing does not exist, or the caller may not know that it does."""


class AlreadyExists(DomainError):
    """The id is taken by something else."""


class FailedPrecondition(DomainError):
    """The request is right, but not in the state things are in."""


class PermissionDenied(DomainError):
    """The caller is known and may not do this."""


class Unauthenticated(DomainError):
    """The caller is not known."""


class ResourceExhausted(DomainError):
    """A quota, a rate or a budget is used up."""


class Unavailable(DomainError):
    """Something this needs does not answer; the same call may work later."""


class InternalError(Unavailable):
    """A service has a fault; only its log says which."""

    def __init__(self, message: str = "internal error", /, **metadata: object) -> None:
        super().__init__(message, **metadata)


class DependencyAway(Unavailable):
    """A service, a database or a network between them does not answer.

    `cause` is for logs alone: it holds addresses.
    """

    def __init__(self, cause: str = "") -> None:
        super().__init__("a part of the platform does not answer; send the same request again")
        self.cause = cause


class ShortOfResources(Unavailable):
    """A service lacks memory, threads, files or disk, for now."""

    def __init__(self) -> None:
        super().__init__("a part of the platform lacks resources; send the same request again")


class CallTooLarge(FailedPrecondition):
    """A message between services is larger than they take."""

    def __init__(self) -> None:
        super().__init__("the request or its answer is too large; ask for less at once")


class DeadlineExceeded(DomainError):
    """No answer in time."""


class Aborted(DomainError):
    """Lost against a concurrent change; the same call may work now."""
