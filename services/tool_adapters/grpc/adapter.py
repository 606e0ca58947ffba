from typing import Protocol

from tool_adapters.adapter import AdapterResult, Output, ToolCall
from tool_adapters.models import GrpcConnection, JsonObject, ToolDefinition
from tool_adapters.secret_store import PLATFORM, SecretStore, for_header


class Methods(Protocol):
    async def call(
        self, tenant: str, tool: ToolDefinition, arguments: JsonObject, token: str
    ) -> str:
        """The response as JSON. Raises CallFailed."""

    async def close(self) -> None: ...


class GrpcAdapter:
    def __init__(self, methods: Methods, secrets: SecretStore) -> None:
        self._methods = methods
        self._secrets = secrets

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        assert isinstance(tool.connection, GrpcConnection)
        name = tool.connection.secret
        owner = PLATFORM if tool.shared else call.tenant
        token = for_header(name, await self._secrets.value(owner, name)) if name else ""
        content = await self._methods.call(call.tenant, tool, call.arguments, token)
        return AdapterResult(Output(content, content))

    async def close_episode(self, tenant: str, episode_id: str) -> None: ...

    async def close(self) -> None:
        await self._methods.close()
