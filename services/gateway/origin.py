from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

# What the audit log's name of an API key begins with.
API_KEY = "api-key "


@dataclass(frozen=True)
class Origin:
    """The origin for the audit log; never a secret."""

    request_id: str
    # Like "api-key 3f2a..." or "oidc https://idp.example.com".
    credential: str


@dataclass
class OriginRejection:
    reason: str = ""
    # Whether the audit log has an entry of it already.
    audited: bool = False


_rejection: ContextVar[OriginRejection | None] = ContextVar("rejection", default=None)
_request_id: ContextVar[str] = ContextVar("request_id", default="")
_credential: ContextVar[str] = ContextVar("credential", default="command line")


def current_origin() -> Origin:
    """Outside of a request: an operator at the command line."""
    return Origin(_request_id.get(), _credential.get())


@contextmanager
def serving_request(request_id: str) -> Iterator[None]:
    reset = _request_id.set(request_id)
    try:
        yield
    finally:
        _request_id.reset(reset)


@contextmanager
def noting_rejection() -> Iterator[OriginRejection]:
    """Yields the reason of the inner request's rejection, if it is rejected."""
    rejection = OriginRejection()
    reset = _rejection.set(rejection)
    try:
        yield rejection
    finally:
        _rejection.reset(reset)


def note_rejection(reason: str) -> None:
    if rejection := _rejection.get():
        rejection.reason = reason


def mark_audited() -> None:
    if rejection := _rejection.get():
        rejection.audited = True


@contextmanager
def admitted_by(credential: str) -> Iterator[None]:
    reset = _credential.set(credential)
    try:
        yield
    finally:
        _credential.reset(reset)
