import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from gateway.chat.client_tools import CUSTOM_PARAMETERS, TextFunction
from gateway.chat.messages import ChatMessage, ChatToolCall, FunctionCall
from gateway.chat.parts import Content, Texts, named_parts, require_texts_of
from gateway.models import ClientTool


class CustomTool(TextFunction):
    type: Literal["custom"]


def ignored_formats(tools: Iterable[object] | None) -> Iterator[str]:
    """Grammars of texts, which no model is held to, by their places."""
    for at, tool in enumerate(tools or ()):
        if isinstance(tool, CustomTool) and (kind := tool.ignored_format()):
            yield f"tools[{at}].format:{kind}"


def custom_names(offered: Iterable[ClientTool]) -> frozenset[str]:
    parameters = json.dumps(CUSTOM_PARAMETERS)
    return frozenset(tool.name for tool in offered if tool.parameters_schema == parameters)


class _Item(BaseModel):
    model_config = ConfigDict(extra="ignore")


class MessageItem(_Item):
    """A message; its type may be left out."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Content

    @model_validator(mode="after")
    def _files_are_the_users(self) -> Self:
        require_texts_of(self.role, self.content)
        return self

    def messages(self) -> list[ChatMessage]:
        return [ChatMessage(role=self.role, content=self.content)]


class FunctionCallItem(_Item):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str = "{}"

    def messages(self) -> list[ChatMessage]:
        function = FunctionCall(name=self.name, arguments=self.arguments)
        call = ChatToolCall(id=self.call_id, function=function)
        return [ChatMessage(role="assistant", tool_calls=[call])]


class FunctionOutputItem(_Item):
    type: Literal["function_call_output"]
    call_id: str
    output: Annotated[Texts, BeforeValidator(named_parts)]

    def messages(self) -> list[ChatMessage]:
        return [ChatMessage(role="tool", tool_call_id=self.call_id, content=self.output)]


class CustomCallItem(_Item):
    """A call with a text as its argument."""

    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str = ""

    def messages(self) -> list[ChatMessage]:
        function = FunctionCall(name=self.name, arguments=json.dumps({"input": self.input}))
        call = ChatToolCall(id=self.call_id, function=function)
        return [ChatMessage(role="assistant", tool_calls=[call])]


class CustomOutputItem(FunctionOutputItem):
    type: Literal["custom_tool_call_output"]  # type: ignore[assignment]


class HostedItem(_Item):
    """A call of a tool that the client's provider ran; the message after it says what it gave."""

    type: str

    def messages(self) -> list[ChatMessage]:
        return []


class McpListItem(_Item):
    """Tools of an MCP server. Orchestrators see those of the request."""

    type: Literal["mcp_list_tools"]

    def messages(self) -> list[ChatMessage]:
        return []


class McpCallItem(_Item):
    """A call of an MCP server's tool, and what it gave."""

    type: Literal["mcp_call"]
    id: str
    name: str
    arguments: str = "{}"
    output: str | None = None
    error: Any = None

    def messages(self) -> list[ChatMessage]:
        function = FunctionCall(name=self.name, arguments=self.arguments)
        call = ChatToolCall(id=self.id, function=function)
        output = self.output if self.error is None else f"an error: {_problem(self.error)}"
        return [
            ChatMessage(role="assistant", tool_calls=[call]),
            ChatMessage.model_validate(
                {"role": "tool", "tool_call_id": self.id, "content": output or ""}
            ),
        ]


def _problem(error: Any) -> str:
    """The texts of an error of a call, as `mcp_items` writes it; others as they are."""
    parts = error.get("content") if isinstance(error, dict) else None
    if not isinstance(parts, list):
        return str(error)
    return " ".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


class ReasoningItem(_Item):
    """A thought of the assistant, which orchestrators do not get again."""

    type: Literal["reasoning"]

    def messages(self) -> list[ChatMessage]:
        return []


_RUN = (
    "web_search file_search code_interpreter image_generation computer local_shell shell"
    " apply_patch tool_search"
)
HOSTED = frozenset(
    f"{name}{ending}" for name in _RUN.split() for ending in ("_call", "_call_output")
) | {"compaction", "context_compaction", "additional_tools", "tool_search_output"}


def _kind(item: Any) -> Any:
    given = item.get("type") if isinstance(item, dict) else getattr(item, "type", None)
    if not isinstance(given, str):
        return "message" if given is None else None
    return "hosted" if given in HOSTED else given or "message"


Item = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[FunctionOutputItem, Tag("function_call_output")]
    | Annotated[CustomCallItem, Tag("custom_tool_call")]
    | Annotated[CustomOutputItem, Tag("custom_tool_call_output")]
    | Annotated[HostedItem, Tag("hosted")]
    | Annotated[McpListItem, Tag("mcp_list_tools")]
    | Annotated[McpCallItem, Tag("mcp_call")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(
        _kind,
        custom_error_type="unsupported_item",
        custom_error_message="send items of type message, function_call, function_call_output,"
        " custom_tool_call, custom_tool_call_output, mcp_list_tools, mcp_call or reasoning",
    ),
]


def _as_items(given: Any) -> Any:
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


# A text alone is what the user says.
Input = Annotated[list[Item], BeforeValidator(_as_items), Field(min_length=1)]


def hosted_items(given: Input) -> Iterator[str]:
    for at, item in enumerate(given):
        if isinstance(item, HostedItem):
            yield f"input[{at}]:{item.type}"


def messages_of(given: Input) -> list[ChatMessage]:
    return [message for item in given for message in item.messages()]
