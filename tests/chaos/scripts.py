"""What episodes do: actions that the scripted model takes, with tools of every kind."""

import json
import random
from dataclasses import dataclass
from typing import Any

from chaos import victims
from chaos.poison import REPLIES

Action = dict[str, Any]
# As the platform registers them, or as the scene does.
ORDER_TOOL, QUOTE_TOOL = "place_order", "get_quote"
TOOLS = (
    "calculator",
    "search_corpus",
    "code_interpreter",
    "ask_llm",
    ORDER_TOOL,
    QUOTE_TOOL,
)

# What fails of itself when its own server is harmed: that is no fault of the platform.
TOOLS_OF = {
    victims.MODEL_SERVER: frozenset({"ask_llm"}),
    victims.TOOL_SERVER: frozenset({ORDER_TOOL, QUOTE_TOOL}),
}


@dataclass(frozen=True)
class Task:
    """A task's text, the orders it places, and whether something in it is poison."""

    text: str
    orders: tuple[str, ...] = ()
    poison: str = ""


def call(tool: str, **arguments: Any) -> Action:
    return {"tool": tool, "arguments": arguments}


def working_task(number: str) -> Task:
    """Calls a tool of every kind, and places two orders of its own."""
    orders = (f"{number}-a", f"{number}-b")
    steps = [
        {"calls": [call("calculator", expression="6*7"), call(ORDER_TOOL, order=orders[0])]},
        {"calls": [call("code_interpreter", code="x = 20"), call(QUOTE_TOOL, item="tea")]},
        {"calls": [call("search_corpus", query="Larkfield"), call("ask_llm")]},
        {"calls": [call("code_interpreter", code="x + 1"), call(ORDER_TOOL, order=orders[1])]},
    ]
    return Task(f"Errand {number}. do: {json.dumps(steps)} end", orders)


def poison_task(number: str, choice: random.Random) -> Task:
    name = choice.choice(sorted(REPLIES))
    return Task(f"Errand {number}. poison: {name}", poison=name)
