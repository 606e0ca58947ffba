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
    chosen_calls,
    first_tools,
    hosted,
)
from gateway.chat.messages import Conversation
from gateway.chat.outcomes import StopText
from gateway.chat.request import JsonSchema, NamedSchema, PodiumOptions, answer_schema, dollars
from gateway.messages.blocks import AnthropicMessage, FileBlock, HostedBlock, Texts, text_of
from gateway.messages.parameters import MESSAGES
from gateway.models import AnswerStyle, EarlierMessage, ListOrder, SentMessage, ToolResults
from gateway.request_model import Flag, RequestModel


class MessagesTool(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    description: str = ""
    input_schema: dict[str, Any]
    strict: bool | None = None

    def tool(self) -> Tool:
        function = FunctionSchema(
            name=self.name,
            description=self.description,
            parameters=self.input_schema,
            strict=self.strict,
        )
        return Tool(type="function", function=function)


def _kind(given: Any) -> str:
    kind = given.get("type") if isinstance(given, dict) else getattr(given, "type", None)
    return "custom" if kind in (None, "custom") or isinstance(given, MessagesTool) else "hosted"


MessageTool = Annotated[
    Annotated[MessagesTool, Tag("custom")] | Annotated[HostedTool, Tag("hosted")],
    Discriminator(_kind),
]


class OutputFormat(BaseModel):
    """An answer that fits a schema."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class OutputConfig(BaseModel):
    """Format of the answer; the effort is the orchestrator's own."""

    model_config = ConfigDict(extra="ignore")

    format: OutputFormat | None = None

    def schema_text(self) -> str:
        if self.format is None:
            return ""
        named = NamedSchema(schema=self.format.schema_)
        return answer_schema(JsonSchema(type="json_schema", json_schema=named))


class ToolChoice(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: Flag = False

    def chat(self) -> Literal["none", "auto", "required"] | NamedTool:
        if self.type == "tool":
            return NamedTool(type="function", function=NamedFunction(name=self.name))
        return "required" if self.type == "any" else self.type


class MessageRequest(RequestModel):
    """A message to answer by an episode."""

    model_config = ConfigDict(extra="allow")
    answer_parameter: ClassVar[str] = "output_config.format"

    model: str
    messages: list[AnthropicMessage] = Field(min_length=1)
    max_tokens: int = Field(gt=0, lt=2**31)
    system: Texts = Field([])
    tools: list[MessageTool] | None = Field(None, description="functions that the client runs")
    tool_choice: ToolChoice | None = None
    stop_sequences: list[StopText] | None = Field(None, max_length=64)
    stream: bool = False
    temperature: float | None = Field(None, ge=0, le=1)
    top_p: float | None = Field(None, gt=0, le=1)
    output_config: OutputConfig = OutputConfig()
    podium: PodiumOptions = PodiumOptions()

    @model_validator(mode="after")
    def _say_where_files_are(self) -> Self:
        for at, message in enumerate(self.messages):
            for place, block in enumerate(message.content):
                if isinstance(block, FileBlock) and block.part.sent:
                    block.part.sent.place = f"messages.{at}.content.{place}"
        return self

    def ignored(self) -> tuple[str, ...]:
        blocks = (
            f"messages[{at}].content[{place}]:{block.type}"
            for at, message in enumerate(self.messages)
            for place, block in enumerate(message.content)
            if isinstance(block, HostedBlock)
        )
        return (*MESSAGES.check(self.model_extra), *hosted(self.tools), *blocks)

    def results(self) -> ToolResults | None:
        MESSAGES.check(self.model_extra)
        return self._conversation().results()

    def order(self, choice: Choice) -> ListOrder:
        conversation, options = self._conversation(), self.podium
        files = placed(conversation.files())
        wanted = self.tool_choice.chat() if self.tool_choice else None
        disabled = self.tool_choice is not None and self.tool_choice.disable_parallel_tool_use
        dropped = wanted == "none" and not choice.tool
        chosen = () if dropped else self.tools or ()
        offered = tuple(each.tool().offered() for each in chosen if isinstance(each, MessagesTool))
        system = [EarlierMessage("system", text_of(self.system))] if self.system else []
        return ListOrder(
            task=conversation.task(),
            history=(*system, *conversation.history()),
            model=choice.model,
            policy=options.policy or choice.policy,
            tool_names=tuple(options.tools),
            client_tools=offered,
            first_tools=first_tools(offered, wanted),
            answer_schema=self.output_config.schema_text(),
            turn_limit=options.turn_limit,
            time_limit_s=options.time_limit_s,
            budget=dollars(options.budget_usd),
            prompt_mode=options.prompt_mode,
            parallel_calls=options.calls_max(parallel=not disabled),
            labels=options.labels,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=None,
            files=files,
            messages=(*map(_instruction, system), *conversation.sent()) if choice.tool else (),
            style=AnswerStyle(
                chosen_calls(wanted), single_call=disabled, stop=tuple(self.stop_sequences or ())
            ),
        )

    def _conversation(self) -> Conversation:
        return Conversation([turn for message in self.messages for turn in message.chat()])


def _instruction(message: EarlierMessage) -> SentMessage:
    return SentMessage(message.role, message.content)


class CountRequest(MessageRequest):
    """A message whose prompt is counted; how long the answer may be does not matter."""

    max_tokens: int = Field(1, gt=0, lt=2**31)
