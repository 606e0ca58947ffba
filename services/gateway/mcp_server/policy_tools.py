"""The tools that the tenant's policy allows, each called without an episode (docs/adr/0035)."""

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any

from mcp import types
from mcp.shared.exceptions import MCPError

from gateway.chat.request import dollars
from gateway.episode_ids import EpisodeIds
from gateway.errors import CallTooLate
from gateway.mcp_server.clients import MadeToolCall, PolicyTools
from gateway.mcp_server.models import OfferedTool, ToolOrder
from gateway.mcp_server.options import CallOptions
from gateway.mcp_server.results import call_result, money
from podium_kit import telemetry
from podium_kit.rpc.errors import NotFound

PAGE_SIZE = 100
CURSOR = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
# The registry's reason for a name that no one registered.
TOOL_NOT_FOUND = "TOOL_NOT_FOUND"


@dataclass(frozen=True)
class ToolCalls:
    tools: PolicyTools
    episode_ids: EpisodeIds
    wait_s: float

    async def page(self, cursor: str | None, but: str) -> tuple[list[types.Tool], str | None]:
        """Tools after the one that the cursor names, and the next cursor. Raises MCPError."""
        if cursor is not None and not CURSOR.fullmatch(cursor):
            raise MCPError(
                types.INVALID_PARAMS, "the cursor is none of this server's; leave it out"
            )
        after = cursor or ""
        # One that has the name of Podium's own is called by episodes alone.
        found = [
            tool for tool in await self.tools.offered() if tool.name > after and tool.name != but
        ]
        shown = found[:PAGE_SIZE]
        more = shown[-1].name if len(found) > PAGE_SIZE else None
        return [_described(tool) for tool in shown], more

    async def call(
        self, name: str, arguments: dict[str, Any], options: CallOptions
    ) -> types.CallToolResult:
        order = ToolOrder(
            tool=name,
            arguments_json=json.dumps(arguments, sort_keys=True),
            policy=options.policy,
            budget=dollars(options.budget_usd),
            labels=options.labels,
        )
        call_id, made = await self._started(order, options.idempotency_key)
        try:
            async with asyncio.timeout(self.wait_s):
                return call_result(await made.result())
        except TimeoutError as error:
            raise CallTooLate(call_id, self.wait_s) from error

    async def _started(self, order: ToolOrder, key: str | None) -> tuple[str, MadeToolCall]:
        body = f"{order.tool}\n{order.policy}\n{order.arguments_json}".encode()
        try:
            async with self.episode_ids.starting_with(key, body) as call:
                with telemetry.episode_context(call.value), telemetry.span("gateway.start_episode"):
                    made = await self.tools.start(call.value, order)
        except NotFound as error:
            if error.reason != TOOL_NOT_FOUND:
                raise
            message = f"there is no tool {order.tool[:100]}; tools/list names those that there are"
            raise MCPError(types.INVALID_PARAMS, message) from error
        return call.value, made


def _described(tool: OfferedTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters_schema,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.side_effect == "pure",
            idempotent_hint=tool.side_effect != "effectful",
        ),
        _meta={"podium": {"version": tool.version, "price_per_call": money(tool.price_per_call)}},
    )
