import base64
import json
from collections.abc import Iterable
from typing import Any

from chaos import victims
from chaos.grpc_orders import METHOD, described
from podium.registry.v1 import tool_pb2

Spec = dict[str, Any]
QUOTE_TOOL, DELEGATE_TOOL, BOARD_TOOL = "get_quote", "delegate", "board_get_users"
ORDER_TOOL, GRPC_ORDER_TOOL, MCP_ORDER_TOOL = "place_order", "place_order_grpc", "place_order_mcp"
CLIENT_ORDER_TOOL = "place_order_client"
# Each writes a line into the log of effects.
ORDER_TOOLS = frozenset({ORDER_TOOL, GRPC_ORDER_TOOL, MCP_ORDER_TOOL, CLIENT_ORDER_TOOL})
KINDS = {
    "calculator": tool_pb2.TOOL_KIND_FUNCTION,
    ORDER_TOOL: tool_pb2.TOOL_KIND_HTTP,
    QUOTE_TOOL: tool_pb2.TOOL_KIND_HTTP,
    MCP_ORDER_TOOL: tool_pb2.TOOL_KIND_MCP,
    BOARD_TOOL: tool_pb2.TOOL_KIND_MCP,
    "code_interpreter": tool_pb2.TOOL_KIND_CODE,
    "search_corpus": tool_pb2.TOOL_KIND_RETRIEVAL,
    "ask_llm": tool_pb2.TOOL_KIND_LLM,
    GRPC_ORDER_TOOL: tool_pb2.TOOL_KIND_GRPC,
    DELEGATE_TOOL: tool_pb2.TOOL_KIND_PODIUM,
    "find_tools": tool_pb2.TOOL_KIND_FIND_TOOLS,
    CLIENT_ORDER_TOOL: tool_pb2.TOOL_KIND_CLIENT,
}
# What comes with an episode, or is offered to those that name no tools.
UNREGISTERED = frozenset({"find_tools", CLIENT_ORDER_TOOL})
NAMED = tuple(name for name in KINDS if name not in UNREGISTERED)

# What fails of itself when its own server is harmed: that is no fault of the platform.
TOOLS_OF = {
    victims.MODEL_SERVER: frozenset({"ask_llm"}),
    victims.TOOL_SERVER: frozenset({ORDER_TOOL, QUOTE_TOOL, GRPC_ORDER_TOOL, MCP_ORDER_TOOL}),
    # An MCP server of the operator's runs in a sandbox, and what it remembers ends with it.
    victims.SANDBOX: frozenset({BOARD_TOOL}),
}


def unanswered_kinds(tools: Iterable[str]) -> list[str]:
    found = {KINDS[name] for name in tools if name in KINDS}
    return [
        f"no call of a tool of kind {name.removeprefix('TOOL_KIND_').lower()} was answered"
        for name, kind in tool_pb2.ToolKind.items()
        if kind and kind not in found
    ]


def _schema(argument: str) -> str:
    wanted = {"type": "object", "properties": {argument: {"type": "string"}}}
    return json.dumps({**wanted, "required": [argument]})


CLIENT_TOOL: Spec = {
    "name": CLIENT_ORDER_TOOL,
    "description": "places an order where the client is",
    "parameters_json_schema": _schema("order"),
}


def specs(http_url: str, grpc_target: str) -> list[Spec]:
    def http(name: str, method: str, path: str, argument: str, effect: str) -> Spec:
        connection = {"http": {"method": method, "url_template": f"{http_url}{path}"}}
        return {**_spec(name, "HTTP", argument, effect), "connection": connection}

    grpc = {
        "target": grpc_target,
        "method": METHOD,
        "descriptor_set": base64.b64encode(described()).decode(),
        "plaintext": True,
    }
    mcp = {"tool_name": MCP_ORDER_TOOL, "http": {"url": f"{http_url}/mcp"}}
    child = _spec(DELEGATE_TOOL, "PODIUM", "task", "IDEMPOTENT")
    del child["sku"]
    return [
        http(ORDER_TOOL, "POST", "/orders", "order", "EFFECTFUL"),
        http(QUOTE_TOOL, "GET", "/quotes/{item}", "item", "PURE"),
        {**_spec(GRPC_ORDER_TOOL, "GRPC", "order", "EFFECTFUL"), "connection": {"grpc": grpc}},
        {**_spec(MCP_ORDER_TOOL, "MCP", "order", "EFFECTFUL"), "connection": {"mcp": mcp}},
        {
            **child,
            "connection": {"podium": {"tool_names": [ORDER_TOOL]}},
            # A fault delays the child, and nothing but its caller's time limit ends it.
            "limits": {"timeout": "900s", "max_concurrency": 64},
        },
    ]


def _spec(name: str, kind: str, argument: str, effect: str) -> Spec:
    return {
        "name": name,
        "kind": f"TOOL_KIND_{kind}",
        "description": name,
        "parameters_json_schema": _schema(argument),
        "sku": "tool/outside",
        "side_effect": f"SIDE_EFFECT_{effect}",
        "limits": {"timeout": "20s", "max_concurrency": 64},
    }
