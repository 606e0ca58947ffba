import json
from decimal import Decimal
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gateway.attachments.files import placed
from gateway.chat.catalogue import Choice
from gateway.chat.client_tools import (
    CustomTool,
    OfferedTool,
    Tool,
    ToolChoice,
    chosen_calls,
    first_tools,
    hosted,
)
from gateway.chat.messages import ChatMessage, Conversation
from gateway.chat.outcomes import StopTexts
from gateway.chat.parameters import CHAT
from gateway.chat.parts import note_places
from gateway.errors import UnsupportedParameter
from gateway.models import AnswerStyle, ListOrder, PromptMode, ToolResults
from gateway.request_model import Flag, OnByDefault, RequestModel
from podium_kit.money import Money

ANY_OBJECT = '{"type": "object"}'
LOGPROBS = (
    "log-probabilities of an orchestrator are of its actions' tokens and not of the answer's text;"
    " GET /v1/episodes/{id}/trajectory has them"
)


class Text(BaseModel):
    type: Literal["text"]


class JsonObject(BaseModel):
    type: Literal["json_object"]


class NamedSchema(BaseModel):
    """A JSON Schema with an object as its root."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    name: str = ""
    schema_: dict[str, Any] = Field({"type": "object"}, alias="schema")


class JsonSchema(BaseModel):
    """An object that fits a schema, whether `strict` or not."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Text | JsonObject | JsonSchema


def answer_schema(wanted: ResponseFormat | None) -> str:
    """The JSON Schema that the answer fits; "" takes any text."""
    if isinstance(wanted, JsonSchema):
        # Libraries name the draft that they write for; what they use of it is in all drafts.
        schema = {
            key: value for key, value in wanted.json_schema.schema_.items() if key != "$schema"
        }
        return json.dumps(schema)
    return ANY_OBJECT if isinstance(wanted, JsonObject) else ""


# So many episodes of one request start and run beside those of others.
CHOICES_MAX = 8


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: Flag = False


class PodiumOptions(BaseModel):
    """Options that OpenAI's fields cannot express."""

    model_config = ConfigDict(extra="forbid")

    policy: str = Field("", description="preference policy; overrides the suffix of `model`")
    tools: list[str] = Field([], description="keeps only these registered tools")
    turn_limit: int = Field(0, ge=0, lt=2**31, description="most turns; 0 means 50")
    budget_usd: Decimal | None = Field(
        None, ge=0, max_digits=28, decimal_places=12, description="most money, in US dollars"
    )
    time_limit_s: float | None = Field(None, gt=0, le=86_400, description="longest run in seconds")
    prompt_mode: PromptMode | None = Field(None, description="how earlier turns are shown")
    parallel_calls: int = Field(
        0, ge=0, le=16, description="most tool calls in one turn; 0: the policy's, or the model's"
    )
    labels: dict[str, str] = Field({}, description="at most 16, kept with the episode")

    def calls_max(self, *, parallel: bool) -> int:
        """Most calls in one turn; without parallel calls one, whatever number is given."""
        return self.parallel_calls if parallel else 1


class ChatRequest(RequestModel):
    """A chat completion to run as an episode."""

    model_config = ConfigDict(extra="allow")
    answer_parameter: ClassVar[str] = "response_format"

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    tools: list[OfferedTool] | None = Field(
        None, description="functions and custom tools that the client runs"
    )
    tool_choice: ToolChoice | None = Field(
        None, description="none: the client's functions are not offered"
    )
    parallel_tool_calls: OnByDefault = Field(True, description="false: one call in a turn")
    response_format: ResponseFormat | None = Field(None, description="what the answer looks like")
    n: int | None = Field(None, ge=1, le=CHOICES_MAX, description="choices: episodes of it")
    stop: StopTexts | None = Field(None, description="what the answer ends before")
    stream: Flag = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, gt=0, lt=2**31)
    max_completion_tokens: int | None = Field(None, gt=0, lt=2**31)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    logprobs: Flag = Field(False, description="of a model without an orchestrator")
    top_logprobs: int | None = Field(None, ge=0, le=20, description="alternatives of each token")
    metadata: dict[str, str] | None = None
    podium: PodiumOptions = PodiumOptions()

    @model_validator(mode="after")
    def _say_where_files_are(self) -> Self:
        note_places("messages", (each.content or () for each in self.messages))
        return self

    @property
    def choice_count(self) -> int:
        return self.n or 1

    def order(self, choice: Choice) -> ListOrder:
        CHAT.check(self.model_extra)
        conversation, options = Conversation(self.messages), self.podium
        files = placed(conversation.files())
        self._check_logprobs(choice)
        # A model without an orchestrator may have called what it must not call now.
        dropped = self.tool_choice == "none" and not choice.tool
        chosen = () if dropped else self.tools or ()
        offered = tuple(tool.offered() for tool in chosen if isinstance(tool, Tool | CustomTool))
        return ListOrder(
            task=conversation.task(),
            history=conversation.history(),
            model=choice.model,
            policy=options.policy or choice.policy,
            tool_names=tuple(options.tools),
            client_tools=offered,
            first_tools=first_tools(offered, self.tool_choice),
            answer_schema=answer_schema(self.response_format),
            turn_limit=options.turn_limit,
            time_limit_s=options.time_limit_s,
            budget=dollars(options.budget_usd),
            prompt_mode=options.prompt_mode,
            parallel_calls=options.calls_max(parallel=self.parallel_tool_calls),
            labels={**(self.metadata or {}), **options.labels},
            max_tokens=self.max_completion_tokens or self.max_tokens or 0,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            files=files,
            messages=conversation.sent() if choice.tool else (),
            style=AnswerStyle(
                chosen_calls(self.tool_choice),
                single_call=not self.parallel_tool_calls,
                stop=tuple(self.stop or ()),
                top_logprobs=(self.top_logprobs or 0) if self.logprobs else None,
            ),
        )

    def _check_logprobs(self, choice: Choice) -> None:
        if self.logprobs and not choice.tool:
            raise UnsupportedParameter("logprobs", LOGPROBS)

    def ignored(self) -> tuple[str, ...]:
        return (*CHAT.check(self.model_extra), *hosted(self.tools))

    def custom_tools(self) -> frozenset[str]:
        """Names of the tools whose calls are answered with a text."""
        return frozenset(
            tool.custom.name for tool in self.tools or () if isinstance(tool, CustomTool)
        )

    def results(self) -> ToolResults | None:
        """Returns the results of client functions for a waiting episode; else None.

        Raises InvalidChat, UnsupportedParameter.
        """
        CHAT.check(self.model_extra)
        return Conversation(self.messages).results()


def dollars(amount: Decimal | None) -> Money | None:
    return None if amount is None else Money.parse(f"{amount:f}", "USD")
