from collections.abc import Iterable
from typing import Any

from gateway.models import MadeCall
from gateway.responses.ids import ResponseId
from gateway.responses.mcp_tools import NamedServer

Json = dict[str, Any]


def mcp_lists(id: ResponseId, servers: Iterable[NamedServer]) -> list[Json]:
    """The tools of each server, under the server's own names."""
    return [
        {
            "type": "mcp_list_tools",
            "id": f"mcpl_{id}_{position}",
            "server_label": server.label,
            "tools": [
                {
                    "name": tool.own_name,
                    "description": tool.description,
                    "input_schema": tool.parameters_schema,
                    "annotations": {"read_only": tool.read_only},
                }
                for tool in server.tools
            ],
            "error": None,
        }
        for position, server in enumerate(servers)
    ]


def mcp_calls(
    id: ResponseId, servers: Iterable[NamedServer], made: Iterable[MadeCall]
) -> list[Json]:
    found = ((call, *_of(servers, call.name)) for call in made)
    return [
        {
            "type": "mcp_call",
            "id": f"mcp_{id}_{call.turn}_{call.index}",
            "server_label": label,
            "name": own_name,
            "arguments": call.arguments,
            "output": None if call.problem else call.content,
            "error": _error(call.problem) if call.problem else None,
            "status": "failed" if call.problem else "completed",
            "approval_request_id": None,
        }
        for call, label, own_name in found
        if label
    ]


def _error(problem: str) -> Json:
    content = [{"type": "text", "text": problem}]
    return {"type": "mcp_tool_execution_error", "content": content}


def _of(servers: Iterable[NamedServer], name: str) -> tuple[str, str]:
    """Label of the server and its own name for the tool; "" where no server has it."""
    for server in servers:
        if tool := server.tool(name):
            return server.label, tool.own_name
    return "", ""
