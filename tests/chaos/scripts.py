import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaos.poison import REPLIES
from chaos.tools import (
    BOARD_TOOL,
    CLIENT_ORDER_TOOL,
    DELEGATE_TOOL,
    GRPC_ORDER_TOOL,
    MCP_ORDER_TOOL,
    NAMED,
    ORDER_TOOL,
    QUOTE_TOOL,
)

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
    """What a task does, one action after the other, by a prompt that has its text.

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
