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
            bool(self.function.strict),
        )


# An episode keeps the schemas of its client's functions: this one says that a function is a custom
# tool, also when its response is asked for later.
CUSTOM_PARAMETERS = {
    "$comment": "a custom tool",
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


class TextFunction(BaseModel):
    """A function of the client whose only argument is a text."""

    model_config = ConfigDict(extra="ignore")

    name: str
    description: str | None = None
    format: dict[str, Any] | None = None

    def tool(self) -> Tool:
        function = FunctionSchema(
            name=self.name, description=self.description, parameters=CUSTOM_PARAMETERS
        )
        return Tool(type="function", function=function)

    def ignored_format(self) -> str:
        """The kind of a grammar of the text, which no model is held to; "" without one."""
        kind = self.format.get("type") if self.format else "text"
        return "" if kind == "text" else str(kind)


def input_of(arguments: str) -> str:
    """The text of a call; its arguments where the episode began with a function of that name."""
    return str(json.loads(arguments).get("input", arguments))


class CustomTool(BaseModel):
    """A tool of the client that takes a text."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["custom"]
    custom: TextFunction

    def offered(self) -> ClientTool:
        return self.custom.tool().offered()


class HostedTool(BaseModel):
    """A tool that the client's provider would run; it is not offered, and the answer says so."""

    model_config = ConfigDict(extra="ignore")

    type: Annotated[str, Field(min_length=1)]


def hosted(tools: Iterable[object] | None) -> Iterator[str]:
    """Names of the tools that are not offered, and of grammars of texts, by their places."""
    for at, tool in enumerate(tools or ()):
        if isinstance(tool, HostedTool):
            yield f"tools[{at}]:{tool.type}"
        elif isinstance(tool, CustomTool) and (kind := tool.custom.ignored_format()):
            yield f"tools[{at}].custom.format:{kind}"


def _kind(given: Any) -> str:
    kind = given.get("type") if isinstance(given, dict) else getattr(given, "type", None)
    if not isinstance(kind, str):
        return "function"
    return kind if kind in ("function", "custom") else "hosted"


OfferedTool = Annotated[
    Annotated[Tool, Tag("function")]
    | Annotated[CustomTool, Tag("custom")]
    | Annotated[HostedTool, Tag("hosted")],
    Discriminator(_kind),
]


class NamedFunction(BaseModel):
    name: str


class NamedTool(BaseModel):
    type: Literal["function"]
    function: NamedFunction


class NamedCustomTool(BaseModel):
    type: Literal["custom"]
    custom: NamedFunction


ToolChoice = Literal["none", "auto", "required"] | NamedTool | NamedCustomTool


def chosen_calls(choice: ToolChoice | None) -> Literal["auto", "none", "required"]:
    return choice if isinstance(choice, str) else "auto"


def first_tools(offered: tuple[ClientTool, ...], choice: ToolChoice | None) -> tuple[str, ...]:
    names = tuple(tool.name for tool in offered)
    if isinstance(choice, NamedTool | NamedCustomTool):
        chosen = choice.function if isinstance(choice, NamedTool) else choice.custom
        if chosen.name not in names:
            raise UnsupportedParameter("tool_choice", f"{chosen.name} is not among tools")
        return (chosen.name,)
    if choice == "required" and not names:
        raise UnsupportedParameter("tool_choice", "required needs tools")
    return names if choice == "required" else ()
