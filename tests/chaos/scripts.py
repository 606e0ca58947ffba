import base64
import json
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from chaos import victims
from chaos.grpc_orders import METHOD, described
from openai_server import Reply
from podium.registry.v1 import tool_pb2

# By name, as a task asks for them: "poison: usage".
REPLIES = {
    # 5 of 5 episodes never ended.
    "usage": Reply('{"answer": "x"}', usage={"prompt_tokens": 10**17, "completion_tokens": 1}),
    "negative-usage": Reply('{"answer": "x"}', usage={"prompt_tokens": -5, "completion_tokens": 1}),
    "text-usage": Reply('{"answer": "x"}', usage={"prompt_tokens": "many"}),
    "no-json": Reply(raw_body=b"<html>I am a teapot", headers={"content-type": "text/html"}),
    "half": Reply(raw_body=b'{"choices": [{"message"', headers={"content-type": "text/html"}),
    "no-choices": Reply(raw_body=b'{"id": "x", "choices": []}'),
    "nul": Reply('{"answer": "a\\u0000b"}'),
    "surrogate": Reply('{"answer": "\\ud800"}'),
    "deep": Reply("[" * 5_000),
    "huge": Reply('{"answer": "' + "x" * 2_000_000 + '"}'),
}


def poisoned(name: str) -> Reply:
    return REPLIES[name]


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


Action = dict[str, Any]
ERRAND = re.compile(r"Errand: (\w+) ([\w-]+)\.")


@dataclass(frozen=True)
class Task:
    text: str
    orders: tuple[str, ...] = ()
    poison: str = ""
    tools: tuple[str, ...] = NAMED
    """That it names; none where it is to be offered some, and to find others."""


def working_task(number: str) -> Task:
    """Calls a tool of every kind but one, and places six orders of its own, each in another way."""
    return Task(_text("working", number), tuple(_orders(number)))


def searching_task(number: str) -> Task:
    """Names no tools: it looks for the one that it calls."""
    return Task(_text("searching", number), tools=())


def steps_of(text: str) -> list[Action]:
    """Returns the actions of a task, one after the other, by a prompt that has its text.

    The prompt of a caller has its child's text, too.
    """
    found = dict(ERRAND.findall(text))
    for kind, steps in STEPS.items():
        if kind in found:
            return [{"calls": calls} for calls in steps(found[kind])]
    return []


def _text(kind: str, number: str) -> str:
    # Prompts are short, so the model knows by heart what the words stand for.
    return f"Errand: {kind} {number}."


def _call(tool: str, **arguments: Any) -> Action:
    return {"tool": tool, "arguments": arguments}


def _orders(number: str) -> list[str]:
    return [f"{number}-{each}" for each in ("a", "mcp", "grpc", "child", "b", "client")]


def _working(number: str) -> list[list[Action]]:
    first, mcp, grpc, child, second, client = _orders(number)
    return [
        [
            _call("calculator", expression="6*7"),
            _call(ORDER_TOOL, order=first),
            _call(MCP_ORDER_TOOL, order=mcp),
        ],
        [
            _call("code_interpreter", code="x = 20"),
            _call(QUOTE_TOOL, item="tea"),
            _call(GRPC_ORDER_TOOL, order=grpc),
        ],
        [
            _call("search_corpus", query="Larkfield"),
            _call("ask_llm"),
            _call(BOARD_TOOL),
            _call(DELEGATE_TOOL, task=_text("delegated", child)),
        ],
        [
            _call("code_interpreter", code="x + 1"),
            _call(ORDER_TOOL, order=second),
            _call(CLIENT_ORDER_TOOL, order=client),
        ],
    ]


def _searching(_number: str) -> list[list[Action]]:
    return [
        [_call("find_tools", query="evaluate an arithmetic expression")],
        [_call("calculator", expression="6*7")],
    ]


def _delegated(order: str) -> list[list[Action]]:
    return [[_call(ORDER_TOOL, order=order)]]


STEPS: dict[str, Callable[[str], list[list[Action]]]] = {
    "working": _working,
    "searching": _searching,
    "delegated": _delegated,
}


def sound_tasks(names: list[str]) -> list[Task]:
    return [*map(working_task, names[:-1]), *map(searching_task, names[-1:])]


def poison_task(number: str, choice: random.Random) -> Task:
    name = choice.choice(sorted(REPLIES))
    return Task(f"Errand {number}. poison: {name}", poison=name)
