"""`tools` and `tool_choice` of a request: functions that its client runs."""

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from gateway.errors import UnsupportedParameter
from gateway.models import ClientTool


class FunctionSchema(BaseModel):
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
    function: FunctionSchema

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


class HostedTool(BaseModel):
    """A tool that the client's provider would run; it is not offered, and the answer says so."""

    model_config = ConfigDict(extra="ignore")

    type: Annotated[str, Field(min_length=1)]


def hosted(tools: Iterable[object] | None) -> Iterator[str]:
    """Names of the tools that are not offered, by their places."""
    for at, tool in enumerate(tools or ()):
        if isinstance(tool, HostedTool):
            yield f"tools[{at}]:{tool.type}"


def _kind(given: Any) -> str:
    kind = given.get("type") if isinstance(given, dict) else getattr(given, "type", None)
    return "function" if kind == "function" or not isinstance(kind, str) else "hosted"


OfferedTool = Annotated[
    Annotated[Tool, Tag("function")] | Annotated[HostedTool, Tag("hosted")], Discriminator(_kind)
]


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
