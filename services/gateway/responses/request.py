"""The body of /v1/responses: OpenAI's fields, and Podium's own under `podium`."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gateway.chat.catalogue import Choice
from gateway.chat.client_tools import Function, NamedFunction, NamedTool, Tool, first_tools
from gateway.chat.messages import ChatMessage, Conversation
from gateway.chat.request import PodiumOptions, dollars
from gateway.chat.response_format import JsonObject, JsonSchema, NamedSchema, Text, answer_schema
from gateway.errors import UnsupportedParameter
from gateway.models import EpisodeOrder, Message, ToolResults
from gateway.responses.items import Input, messages_of
from gateway.responses.parameters import RESPONSES


class FunctionTool(Function):
    """A function that the client runs."""

    type: Literal["function"]

    @model_validator(mode="before")
    @classmethod
    def _is_a_function(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("type") != "function":
            raise ValueError(
                "only tools of type function are run by clients; others are registered with"
                " POST /v1/tools and named in podium.tools"
            )
        return given

    def tool(self) -> Tool:
        return Tool(type="function", function=Function(**self.model_dump()))


class NamedChoice(NamedFunction):
    """A choice of one function."""

    type: Literal["function"]


class JsonSchemaFormat(BaseModel):
    """An object that fits a schema."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["json_schema"]
    name: str = ""
    schema_: dict[str, Any] = Field(alias="schema")


class TextOptions(BaseModel):
    """What the answer looks like."""

    model_config = ConfigDict(extra="ignore")

    format: Text | JsonObject | JsonSchemaFormat | None = None

    def schema_text(self) -> str:
        """The JSON Schema that the answer fits; "" takes any text."""
        if isinstance(self.format, JsonSchemaFormat):
            named = NamedSchema(schema=self.format.schema_)
            return answer_schema(JsonSchema(type="json_schema", json_schema=named))
        return answer_schema(self.format)


class ResponseRequest(BaseModel):
    """A response to run as an episode."""

    model_config = ConfigDict(extra="allow")

    model: str
    input: Input
    instructions: str | None = None
    previous_response_id: str | None = None
    tools: list[FunctionTool] | None = Field(None, description="functions that the client runs")
    tool_choice: Literal["none", "auto", "required"] | NamedChoice | None = None
    text: TextOptions = TextOptions()
    stream: bool = False
    background: bool = Field(False, description="answered at once; ask for it by its id")
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    max_output_tokens: int | None = Field(None, gt=0, lt=2**31)
    metadata: dict[str, str] | None = None
    podium: PodiumOptions = PodiumOptions()

    def results(self) -> ToolResults | None:
        """What the client's functions gave, for an episode that waits for it; else None.

        Raises InvalidChat, UnsupportedParameter.
        """
        self._reject_unsupported()
        return self._conversation().results()

    def order(self, choice: Choice, before: tuple[Message, ...] = ()) -> EpisodeOrder:
        """The episode it asks for, after what was said before.

        Raises InvalidChat, UnsupportedParameter, InvalidMoney.
        """
        conversation, options = self._conversation(), self.podium
        chosen = () if self.tool_choice == "none" else self.tools or ()
        offered = tuple(each.tool().offered() for each in chosen)
        instructions = [Message("system", self.instructions)] if self.instructions else []
        return EpisodeOrder(
            task=conversation.task(),
            history=(*instructions, *before, *conversation.history()),
            model=choice.model,
            policy=options.policy or choice.policy,
            tool_names=tuple(options.tools),
            client_tools=offered,
            first_tools=first_tools(offered, self._choice()),
            answer_schema=self.text.schema_text(),
            turn_limit=options.turn_limit,
            time_limit_s=options.time_limit_s,
            budget=dollars(options.budget_usd),
            prompt_mode=options.prompt_mode,
            labels={**(self.metadata or {}), **options.labels},
            max_tokens=self.max_output_tokens or 0,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=None,
        )

    def _choice(self) -> Literal["none", "auto", "required"] | NamedTool | None:
        if isinstance(self.tool_choice, NamedChoice):
            return NamedTool(type="function", function=NamedFunction(name=self.tool_choice.name))
        return self.tool_choice

    def _conversation(self) -> Conversation:
        messages: list[ChatMessage] = messages_of(self.input)
        return Conversation(messages)

    def _reject_unsupported(self) -> None:
        RESPONSES.check(self.model_extra)
        if self.background and self.stream:
            raise UnsupportedParameter("background", "a stream is followed while it runs")


@dataclass(frozen=True)
class FollowUp:
    """A request, and the conversation of the response before it."""

    request: ResponseRequest
    before: tuple[Message, ...] = ()

    @property
    def model(self) -> str:
        return self.request.model

    def results(self) -> ToolResults | None:
        return self.request.results()

    def order(self, choice: Choice) -> EpisodeOrder:
        return self.request.order(choice, self.before)
