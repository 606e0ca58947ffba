"""`tools` and `tool_choice` of a request: functions that its client runs."""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.errors import UnsupportedParameter
from gateway.models import ClientTool


class Function(BaseModel):
    """A function and the JSON Schema of its arguments."""

    model_config = ConfigDict(extra="ignore")

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = Field(None, description="JSON Schema; none: no arguments")
    strict: bool | None = Field(None, description="arguments fit the schema in any case")


class Tool(BaseModel):
    """A tool; only functions are offered to the orchestrator."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["function"]
    function: Function

    def offered(self) -> ClientTool:
        # Libraries name the draft that they write for; what they use of it is in all drafts.
        schema = dict(self.function.parameters or {})
        schema.pop("$schema", None)
        if schema:
            schema.setdefault("type", "object")
        return ClientTool(
            self.function.name,
            self.function.description or "",
            json.dumps(schema) if schema else "",
        )


class NamedFunction(BaseModel):
    """The name of a function."""

    name: str


class NamedTool(BaseModel):
    """A choice of one function."""

    type: Literal["function"]
    function: NamedFunction


ToolChoice = Literal["none", "auto", "required"] | NamedTool


def first_tools(offered: tuple[ClientTool, ...], choice: ToolChoice | None) -> tuple[str, ...]:
    """Of which the episode calls one before it does anything else.

    Raises UnsupportedParameter.
    """
    names = tuple(tool.name for tool in offered)
    if isinstance(choice, NamedTool):
        if choice.function.name not in names:
            raise UnsupportedParameter("tool_choice", f"{choice.function.name} is not among tools")
        return (choice.function.name,)
    if choice == "required" and not names:
        raise UnsupportedParameter("tool_choice", "required needs tools")
    return names if choice == "required" else ()
