"""The HTTP status behind an error of the MCP SDK, which keeps it to itself."""

import re
from contextvars import ContextVar
from http import HTTPStatus

import httpx2
import mcp_types
from mcp.shared.exceptions import MCPError

from podium_kit.failures import ToolFailure
from tool_adapters.http.client import FAILURE_OF_STATUS, HttpReply, status_failure

# 404 is for the SDK to read: it means a session or a method that the server does not know.
MEANT = FAILURE_OF_STATUS.keys() - {HTTPStatus.NOT_FOUND}
# Of a message that the server's transport did not pass on; the second is the TypeScript SDK's.
UNREAD_CODES = {mcp_types.INVALID_REQUEST, -32001}
_NO_SESSION = re.compile(
    r"session( id)? (is )?(not found|unknown|invalid|expired|terminated|closed|ended)"
    r"|session( id)? does not exist"
    r"|(no|unknown|invalid|expired|missing|no valid) session|not initialized",
    re.IGNORECASE,
)
_last: ContextVar["LastReply"] = ContextVar("last_reply")


class LastReply:
    """The last reply of a server over HTTP to a message of this context.

    The SDK sends a message in the context of who asks for it, so that each call has its own.
    """

    def __init__(self) -> None:
        self.reply: HttpReply | None = None
        _last.set(self)

    def is_lost_session(self, error: MCPError) -> bool:
        """True when the server does not know the session, and so did not read the message.

        The protocol answers 404; there are servers that answer 400, or 200 with an error.
        """
        if self.reply is None or error.code == mcp_types.METHOD_NOT_FOUND:
            return False
        if self.reply.status == HTTPStatus.NOT_FOUND:
            return True
        unread = self.reply.status == HTTPStatus.BAD_REQUEST or error.code in UNREAD_CODES
        return unread and bool(_NO_SESSION.search(error.message))

    def failure(self, error: MCPError) -> ToolFailure | None:
        """The failure of the status; None where the error states it all."""
        if self.reply is None or self.reply.status not in MEANT:
            return None
        return status_failure(self.reply, error.message)


def note_reply(response: httpx2.Response) -> None:
    if last := _last.get(None):
        last.reply = HttpReply(response.status_code, dict(response.headers), b"")
