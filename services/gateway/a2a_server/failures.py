import logging
from collections.abc import Iterator
from contextlib import contextmanager

from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
)

from gateway.errors import UpstreamFault
from gateway.http.error_responses import http_status
from podium_kit.rpc.errors import DomainError, message_of

log = logging.getLogger(__name__)
INVALID = (400, 404)
# The reason of the episode service for a file that no one reads.
UNREAD = "UNSUPPORTED_ATTACHMENT"


@contextmanager
def in_its_words() -> Iterator[None]:
    """Turns the block's errors into errors that the library answers with."""
    try:
        yield
    except A2AError:
        raise
    except DomainError as error:
        raise _translated(error) from error
    except Exception as error:
        log.exception("an agent's request failed: %s", message_of(error))
        raise InternalError(UpstreamFault().message) from error


def _translated(error: DomainError) -> A2AError:
    """The protocol has no code for most; `data` has the reason and the status of our REST API."""
    status, _ = http_status(error)
    data = {**error.metadata, "reason": error.reason, "status": str(status)}
    if error.reason == UNREAD:
        return ContentTypeNotSupportedError(error.message, data)
    if status in INVALID:
        return InvalidParamsError(error.message, data)
    return (
        InternalError(error.message, data)
        if status >= 500
        else InvalidRequestError(error.message, data)
    )
