"""An adapter that its first call makes, so that the service starts without its library."""

import asyncio
from collections.abc import Callable

from tool_adapters.adapter import Adapter, AdapterResult, ToolCall
from tool_adapters.models import ToolDefinition


class LateAdapter:
    """Calls that come while the adapter is made wait for it."""

    def __init__(self, make: Callable[[], Adapter]) -> None:
        self._make = make
        self._made: Adapter | None = None
        self._making = asyncio.Lock()

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        async with self._making:
            if self._made is None:
                # In a thread: others are served meanwhile.
                self._made = await asyncio.to_thread(self._make)
        return await self._made.invoke(call, tool)

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        if self._made is not None:
            await self._made.close_episode(tenant, episode_id)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()
