"""Tools and calls of them as adapters get them."""

from typing import Any

from podium_kit.tool_kinds import ToolKind
from tool_adapters.adapter import ToolCall
from tool_adapters.models import Connection, JsonObject, SideEffect, ToolDefinition


def tool_definition(
    name: str, kind: ToolKind, connection: Connection, **fields: Any
) -> ToolDefinition:
    defaults: dict[str, Any] = {
        "parameters_schema": {"type": "object"},
        "result_schema": None,
        "side_effect": SideEffect.PURE,
    }
    return ToolDefinition(
        name=name, version=1, kind=kind, connection=connection, **defaults | fields
    )


def tool_call(
    name: str, arguments: JsonObject | None = None, tenant: str = "acme", episode_id: str = "e1"
) -> ToolCall:
    key = f"{episode_id}/0/tool/0"
    return ToolCall(key, episode_id, name, 1, arguments or {}, "", "", 0, tenant)
