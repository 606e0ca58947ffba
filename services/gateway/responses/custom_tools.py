"""Tools of type custom: functions of the client whose only argument is a text."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gateway.chat.client_tools import FunctionSchema, Tool
from gateway.models import ClientTool

# An episode keeps the schemas of its client's functions: this one says that a function is such a
# tool, also when its response is asked for later.
PARAMETERS = {
    "$comment": "a custom tool",
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


class CustomTool(BaseModel):
    """A tool of the client that takes a text."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["custom"]
    name: str
    description: str | None = None
    format: dict[str, Any] | None = None

    def tool(self) -> Tool:
        """As a function, which is what an orchestrator calls."""
        function = FunctionSchema(
            name=self.name, description=self.description, parameters=PARAMETERS
        )
        return Tool(type="function", function=function)


def ignored_formats(tools: Iterable[object] | None) -> Iterator[str]:
    """Grammars of texts, which no model is held to, by their places."""
    for at, tool in enumerate(tools or ()):
        kind = tool.format.get("type") if isinstance(tool, CustomTool) and tool.format else "text"
        if kind != "text":
            yield f"tools[{at}].format:{kind}"


def custom_names(offered: Iterable[ClientTool]) -> frozenset[str]:
    """Names of the custom tools among an episode's functions of its client."""
    parameters = json.dumps(PARAMETERS)
    return frozenset(tool.name for tool in offered if tool.parameters_schema == parameters)


def input_of(arguments: str) -> str:
    """The text of a call; its arguments where the episode began with a function of that name."""
    return str(json.loads(arguments).get("input", arguments))
