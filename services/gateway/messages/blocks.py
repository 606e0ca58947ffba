"""Messages of Anthropic's API, as those of a conversation."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from gateway.chat.messages import ChatMessage, FunctionCall, Part, ToolCall


class _Block(BaseModel):
    model_config = ConfigDict(extra="ignore")


class TextBlock(_Block):
    """Text."""

    type: Literal["text"]
    text: str


class ToolUseBlock(_Block):
    """A call that the assistant asked for."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any] = {}


class ThinkingBlock(_Block):
    """What the assistant thought. Orchestrators are not told what they thought before."""

    type: Literal["thinking", "redacted_thinking"]


def _as_texts(given: Any) -> Any:
    return [{"type": "text", "text": given}] if isinstance(given, str) else given


Texts = Annotated[list[TextBlock], BeforeValidator(_as_texts)]


class ToolResultBlock(_Block):
    """What a call gave."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Texts = []
    is_error: bool = False


def _kind(block: Any) -> Any:
    given = block.get("type") if isinstance(block, dict) else getattr(block, "type", None)
    return "thinking" if given == "redacted_thinking" else given


Block = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ToolUseBlock, Tag("tool_use")]
    | Annotated[ToolResultBlock, Tag("tool_result")]
    | Annotated[ThinkingBlock, Tag("thinking")],
    Discriminator(
        _kind,
        custom_error_type="unsupported_block",
        custom_error_message="images and documents are not supported: models and tools take text;"
        " send blocks of type text, tool_use, tool_result or thinking",
    ),
]


class AnthropicMessage(BaseModel):
    """A message: text, or blocks."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["user", "assistant"]
    content: Annotated[list[Block], BeforeValidator(_as_texts), Field(min_length=1)]

    def chat(self) -> list[ChatMessage]:
        """Results of calls are messages of their own, before what the user says."""
        results = [_result(block) for block in self.content if isinstance(block, ToolResultBlock)]
        texts = [block for block in self.content if isinstance(block, TextBlock)]
        calls = [_call(block) for block in self.content if isinstance(block, ToolUseBlock)]
        if not texts and not calls:
            return results
        said = ChatMessage(
            role=self.role, content=_content(text_of(texts)), tool_calls=calls or None
        )
        return [*results, said]


def text_of(blocks: list[TextBlock]) -> str:
    return "\n".join(block.text for block in blocks)


def _result(block: ToolResultBlock) -> ChatMessage:
    said = text_of(block.content)
    content = f"error: {said}" if block.is_error else said
    return ChatMessage(role="tool", tool_call_id=block.tool_use_id, content=_content(content))


def _content(text: str) -> list[Part]:
    return [Part(type="text", text=text)]


def _call(block: ToolUseBlock) -> ToolCall:
    function = FunctionCall(name=block.name, arguments=json.dumps(block.input))
    return ToolCall(id=block.id, function=function)
