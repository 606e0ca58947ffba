"""The HTTP status behind an error of the MCP SDK, which keeps it to itself."""

from contextvars import ContextVar
from http import HTTPStatus

import httpx2
from mcp.shared.exceptions import MCPError

from podium_kit.failures import ToolFailure
from tool_adapters.http.client import FAILURE_OF_STATUS, HttpReply, status_failure

# 404 is for the SDK to read: it means a session or a method that the server does not know.
MEANT = FAILURE_OF_STATUS.keys() - {HTTPStatus.NOT_FOUND}
_last: ContextVar["LastReply"] = ContextVar("last_reply")


class LastReply:
    """What a server over HTTP replied last to a message of this context.

    The SDK sends a message in the context of who asks for it, so that each call has its own.
    """

    def __init__(self) -> None:
        self.reply: HttpReply | None = None
        _last.set(self)

    def failure(self, error: MCPError) -> ToolFailure | None:
        """What the status means; None where it means nothing beside the error."""
        if self.reply is None or self.reply.status not in MEANT:
            return None
        return status_failure(self.reply, error.message)


def note_reply(response: httpx2.Response) -> None:
    """Notes status and headers; the body is the SDK's to read."""
    if last := _last.get(None):
        last.reply = HttpReply(response.status_code, dict(response.headers), b"")
