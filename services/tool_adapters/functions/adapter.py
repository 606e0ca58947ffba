"""Tools of kind function: the bundled functions, called on a thread."""

import asyncio
import json

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import AdapterResult, Output, ToolCall
from tool_adapters.functions.errors import FunctionFailed
from tool_adapters.functions.table import FUNCTIONS
from tool_adapters.models import FunctionConnection, ToolDefinition


class FunctionAdapter:
    """Stateless. A cancelled call ends by itself: every function bounds its own work."""

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        """The function's answer as JSON, or its typed failure."""
        assert isinstance(tool.connection, FunctionConnection)
        function = FUNCTIONS.get(tool.connection.function)
        if function is None:
            return AdapterResult(_unknown(tool.connection.function))
        try:
            answer = await asyncio.to_thread(function, call.arguments)
        except FunctionFailed as error:
            return AdapterResult(error.failure)
        content = json.dumps(answer, ensure_ascii=False)
        return AdapterResult(Output(content, content))

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        """Functions hold nothing."""

    async def close(self) -> None:
        """Functions hold nothing."""


def _unknown(name: str) -> ToolFailure:
    message = f"no function is called {name!r}; there are {', '.join(FUNCTIONS)}"
    return ToolFailure(FailureKind.NOT_FOUND, message)
