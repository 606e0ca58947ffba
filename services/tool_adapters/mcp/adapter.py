import mcp_types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import Adapter, AdapterResult, CallFailed, ToolCall
from tool_adapters.errors import McpServerUnusable
from tool_adapters.mcp.pool import McpPool, McpSession
from tool_adapters.mcp.results import outcome_of
from tool_adapters.mcp.servers import ServerOwner
from tool_adapters.mcp.statuses import LastReply
from tool_adapters.mcp.stdio import TOO_LARGE
from tool_adapters.models import McpConnection, ToolDefinition

# The SDK's, for a process that ended; servers have errors of their own with the same code.
CLOSED = mcp_types.ErrorData(code=mcp_types.CONNECTION_CLOSED, message="Connection closed")
FAILURE_OF_CODE = {
    mcp_types.INVALID_PARAMS: FailureKind.INVALID_ARGUMENTS,
    mcp_types.METHOD_NOT_FOUND: FailureKind.NOT_FOUND,
}


class _SessionLost(Exception):
    """The server does not know the session; the message is the server's."""


class McpAdapter(Adapter):
    def __init__(self, pool: McpPool) -> None:
        self._pool = pool

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        try:
            return await self._called(call, tool)
        except _SessionLost:
            # The server knew no such session, so it did nothing: what follows is the first call.
            try:
                return await self._called(call, tool)
            except _SessionLost as error:
                message = f"the MCP server ends every session at once: {error}"
                return AdapterResult(ToolFailure(FailureKind.UNAVAILABLE, message, retryable=True))

    async def _called(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        """Raises _SessionLost when the server did not even look at the call."""
        assert isinstance(tool.connection, McpConnection)
        owner = ServerOwner(call.tenant, tool.shared)
        call.cut.unsent = True
        try:
            session = await self._pool.session(owner, call.episode_id, tool.connection.transport)
        except McpServerUnusable as error:
            raise CallFailed(FailureKind.NOT_FOUND, error.message, unsent=True) from error
        last = LastReply()
        try:
            async with session.borrowed() as client:
                call.cut.note_sent()
                result = await client.call_tool(tool.connection.tool_name, call.arguments)
        except MCPError as error:
            if last.is_lost_session(error):
                await self._pool.drop(session)
                raise _SessionLost(error.message) from error
            return AdapterResult(await self._failure(session, error, last))
        except (ValidationError, RuntimeError) as error:
            return AdapterResult(_malformed(str(error)))
        except Exception as error:
            # It never opened, or broke: another call deserves another try.
            await self._pool.drop(session)
            if isinstance(error, CallFailed):
                error.unsent = call.cut.unsent
            raise
        return AdapterResult(outcome_of(result, tool.limits.max_output_bytes))

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        await self._pool.close_episode(tenant, episode_id)

    async def close(self) -> None:
        await self._pool.close()

    async def _failure(self, session: McpSession, error: MCPError, last: LastReply) -> ToolFailure:
        if TOO_LARGE in error.message:
            await self._pool.drop(session)
            message = "the MCP server's answer is larger than any message may be, or of more values"
            message += "; ask for less"
            return ToolFailure(FailureKind.OUTPUT_TOO_LARGE, message)
        if rejected := last.failure(error):
            return rejected
        if error.error == CLOSED:
            await self._pool.drop(session)
            message = "the MCP server ended the session; what it remembered of this episode is lost"
            return ToolFailure(FailureKind.UNAVAILABLE, message, retryable=True)
        if error.code == mcp_types.PARSE_ERROR:
            return _malformed(error.message)
        kind = FAILURE_OF_CODE.get(error.code, FailureKind.TOOL_ERROR)
        return ToolFailure(kind, error.message)


def _malformed(problem: str) -> ToolFailure:
    message = f"the MCP server's answer is not what it promises: {problem}"
    return ToolFailure(FailureKind.MALFORMED_OUTPUT, message)
