import asyncio
import json

from podium_functions.errors import FunctionFailed
from podium_functions.function import Function
from podium_functions.table import FUNCTIONS
from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import AdapterResult, Output, ToolCall
from tool_adapters.functions.processes import FunctionProcesses
from tool_adapters.models import FunctionConnection, JsonObject, ToolDefinition

# Functions that wait for a process of their own, for a bounded time.
WAITING = {"query_database": Function("queried", "podium_functions.sql")}


class FunctionAdapter:
    def __init__(self) -> None:
        self._processes = FunctionProcesses()

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        assert isinstance(tool.connection, FunctionConnection)
        name = tool.connection.function
        if name not in FUNCTIONS:
            return AdapterResult(_unknown(name))
        try:
            answer = await self._answer(call.tenant, name, call.arguments)
        except FunctionFailed as error:
            return AdapterResult(error.failure)
        content = json.dumps(answer, ensure_ascii=False)
        return AdapterResult(Output(content, content))

    def warm_up(self) -> None:
        self._processes.warm_up()

    async def close_episode(self, tenant: str, episode_id: str) -> None: ...

    async def close(self) -> None:
        await self._processes.close()

    async def _answer(self, tenant: str, name: str, arguments: JsonObject) -> object:
        if waiting := WAITING.get(name):
            await asyncio.to_thread(waiting.load)
            return await waiting(arguments)
        return await self._processes.call(tenant, name, arguments)


def _unknown(name: str) -> ToolFailure:
    message = f"no function is called {name!r}; there are {', '.join(FUNCTIONS)}"
    return ToolFailure(FailureKind.NOT_FOUND, message)
