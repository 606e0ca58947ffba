from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from gateway.attachments.files import placed
from gateway.chat.catalogue import Choice
from gateway.chat.client_tools import (
    FunctionSchema,
    HostedTool,
    NamedFunction,
    NamedTool,
    Tool,
    first_tools,
    hosted,
)
from gateway.chat.messages import ChatMessage, Conversation
from gateway.chat.parts import note_places
from gateway.chat.request import (
    JsonObject,
    JsonSchema,
    NamedSchema,
    PodiumOptions,
    Text,
    answer_schema,
    dollars,
)
from gateway.errors import UnsupportedParameter
from gateway.models import (
    NO_PRIOR_MESSAGES,
    AnswerStyle,
    ClientTool,
    EarlierMessage,
    ListOrder,
    PriorMessages,
    SentMessage,
    ToolResults,
)
from gateway.request_model import Flag, OnByDefault, RequestModel
from gateway.responses.items import (
    CustomTool,
    Input,
    MessageItem,
    hosted_items,
    ignored_formats,
    messages_of,
)
from gateway.responses.mcp_servers import label_of
from gateway.responses.mcp_tools import McpChoice, McpTool, NamedServer
from gateway.responses.parameters import RESPONSES


class FunctionTool(FunctionSchema):
    type: Literal["function"]

    def tool(self) -> Tool:
        return Tool(type="function", function=FunctionSchema(**self.model_dump()))


def _kind(given: Any) -> str:
    kind = given.get("type") if isinstance(given, dict) else getattr(given, "type", None)
    if not isinstance(kind, str):
        return "function"
    return kind if kind in ("function", "custom", "mcp") else "hosted"


ResponseTool = Annotated[
    Annotated[FunctionTool, Tag("function")]
    | Annotated[CustomTool, Tag("custom")]
    | Annotated[McpTool, Tag("mcp")]
    | Annotated[HostedTool, Tag("hosted")],
    Discriminator(_kind),
]


class NamedChoice(NamedFunction):
    type: Literal["function", "custom"]


class JsonSchemaFormat(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: Literal["json_schema"]
    name: str = ""
    schema_: dict[str, Any] = Field(alias="schema")


class TextOptions(BaseModel):
    """The form of the answer."""

    model_config = ConfigDict(extra="ignore")

    format: Text | JsonObject | JsonSchemaFormat | None = None

    def schema_text(self) -> str:
        if isinstance(self.format, JsonSchemaFormat):
            named = NamedSchema(schema=self.format.schema_)
            return answer_schema(JsonSchema(type="json_schema", json_schema=named))
        return answer_schema(self.format)


class ResponseRequest(RequestModel):
    """A response to run as an episode."""

    model_config = ConfigDict(extra="allow")
    answer_parameter: ClassVar[str] = "text.format"

    model: str
    input: Input
    instructions: str | None = None
    previous_response_id: str | None = None
    tools: list[ResponseTool] | None = Field(
        None,
        description="functions and custom tools that the client runs, and registered MCP servers",
    )
    tool_choice: Literal["none", "auto", "required"] | NamedChoice | McpChoice | None = None
    parallel_tool_calls: OnByDefault = Field(True, description="false: one call in a turn")
    text: TextOptions = TextOptions()
    stream: Flag = False
    background: Flag = Field(False, description="answered at once; ask for it by its id")
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    max_output_tokens: int | None = Field(None, gt=0, lt=2**31)
    metadata: dict[str, str] | None = None
    podium: PodiumOptions = PodiumOptions()

    @model_validator(mode="after")
    def _say_where_files_are(self) -> Self:
        contents = (each.content if isinstance(each, MessageItem) else () for each in self.input)
        note_places("input", contents)
        return self

    def ignored(self) -> tuple[str, ...]:
        return (
            *RESPONSES.check(self.model_extra),
            *hosted(self.tools),
            *ignored_formats(self.tools),
            *hosted_items(self.input),
        )

    def results(self) -> ToolResults | None:
        self._reject_unsupported()
        return self._conversation().results()

    def mcp_tools(self) -> list[McpTool]:
        if self.tool_choice == "none":
            return []
        return [each for each in self.tools or () if isinstance(each, McpTool)]

    def order(
        self,
        choice: Choice,
        before: PriorMessages = NO_PRIOR_MESSAGES,
        servers: tuple[NamedServer, ...] = (),
    ) -> ListOrder:
        conversation, options = self._conversation(), self.podium
        files = placed(conversation.files(), before.files)
        dropped = self.tool_choice == "none" and not choice.tool
        chosen = () if dropped else self.tools or ()
        functions = [each for each in chosen if isinstance(each, FunctionTool | CustomTool)]
        offered = tuple(each.tool().offered() for each in functions)
        of_servers = tuple(tool.name for server in servers for tool in server.tools)
        instructions = [EarlierMessage("system", self.instructions)] if self.instructions else []
        return ListOrder(
            task=conversation.task(),
            history=(*instructions, *before.messages, *conversation.history()),
            model=choice.model,
            policy=options.policy or choice.policy,
            tool_names=tuple(dict.fromkeys((*options.tools, *of_servers))),
            client_tools=offered,
            first_tools=self._first_tools(offered, servers, of_servers),
            answer_schema=self.text.schema_text(),
            turn_limit=options.turn_limit,
            time_limit_s=options.time_limit_s,
            budget=dollars(options.budget_usd),
            prompt_mode=options.prompt_mode,
            parallel_calls=options.calls_max(parallel=self.parallel_tool_calls),
            labels={**(self.metadata or {}), **options.labels, **label_of(self.mcp_tools())},
            max_tokens=self.max_output_tokens or 0,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=None,
            files=files,
            messages=(*map(_earlier, (*instructions, *before.messages)), *conversation.sent())
            if choice.tool
            else (),
            style=self._style(),
        )

    def _style(self) -> AnswerStyle:
        chosen = self.tool_choice if isinstance(self.tool_choice, str) else "auto"
        return AnswerStyle(chosen or "auto", single_call=not self.parallel_tool_calls)

    def _first_tools(
        self,
        offered: tuple[ClientTool, ...],
        servers: tuple[NamedServer, ...],
        of_servers: tuple[str, ...],
    ) -> tuple[str, ...]:
        choice = self.tool_choice
        if isinstance(choice, McpChoice):
            return choice.names(servers)
        if isinstance(choice, NamedChoice):
            named = NamedTool(type="function", function=NamedFunction(name=choice.name))
            return first_tools(offered, named)
        if choice == "required" and of_servers:
            return (*(tool.name for tool in offered), *of_servers)
        return first_tools(offered, choice)

    def _conversation(self) -> Conversation:
        messages: list[ChatMessage] = messages_of(self.input)
        return Conversation(messages)

    def _reject_unsupported(self) -> None:
        RESPONSES.check(self.model_extra)
        if self.background and self.stream:
            raise UnsupportedParameter("background", "a stream is followed while it runs")


def _earlier(message: EarlierMessage) -> SentMessage:
    return SentMessage(message.role, message.content)


@dataclass(frozen=True)
class FollowUp:
    """A request, the conversation of the response before it, and the MCP servers it names."""

    request: ResponseRequest
    servers: tuple[NamedServer, ...]
    before: PriorMessages = NO_PRIOR_MESSAGES

    @property
    def model(self) -> str:
        return self.request.model

    @property
    def answer_parameter(self) -> str:
        return self.request.answer_parameter

    @property
    def stream(self) -> bool:
        return self.request.stream

    def ignored(self) -> tuple[str, ...]:
        return self.request.ignored()

    def results(self) -> ToolResults | None:
        return self.request.results()

    def order(self, choice: Choice) -> ListOrder:
        return self.request.order(choice, self.before, self.servers)
