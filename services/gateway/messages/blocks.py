import json
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    model_validator,
)

from gateway.attachments.files import InvalidFile, fetches_nothing, from_base64, reject_id
from gateway.chat.messages import ChatMessage, ChatToolCall, FunctionCall
from gateway.chat.parts import Part, named_parts, require_texts_of, unreadable

FILES = ("image", "document")


class _Block(BaseModel):
    model_config = ConfigDict(extra="ignore")


class TextBlock(_Block):
    type: Literal["text"]
    text: str


class ToolUseBlock(_Block):
    """A call that the assistant asked for."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any] = {}


class ThinkingBlock(_Block):
    """A thought of the assistant, which orchestrators do not get again."""

    type: Literal["thinking", "redacted_thinking"]


def _as_texts(given: Any) -> Any:
    return [{"type": "text", "text": given}] if isinstance(given, str) else given


def _without_files(given: Any) -> Any:
    blocks = given if isinstance(given, list) else []
    if any(isinstance(block, dict) and block.get("type") in FILES for block in blocks):
        raise unreadable(
            InvalidFile(
                "unsupported_content",
                "text alone is taken here; send images and documents in the user's own blocks",
            )
        )
    return _as_texts(given)


Texts = Annotated[list[TextBlock], BeforeValidator(_without_files)]


def _as_result(given: Any) -> Any:
    return named_parts(_as_texts(given))


ResultTexts = Annotated[list[TextBlock], BeforeValidator(_as_result)]


class FileSource(_Block):
    type: str = Field(description="base64; url and file are rejected, and text of a document")
    media_type: str = ""
    data: str = ""


class FileBlock(_Block):
    """An image or a document."""

    type: Literal["image", "document"]
    source: FileSource
    title: str | None = None
    _part: Part = PrivateAttr()

    @model_validator(mode="after")
    def _read(self) -> Self:
        try:
            self._part = self._as_part()
        except InvalidFile as error:
            raise unreadable(error) from error
        self.source.data = ""
        return self

    @property
    def part(self) -> Part:
        return self._part

    def _as_part(self) -> Part:
        noun, source = ("image" if self.type == "image" else "file"), self.source
        match source.type:
            case "base64":
                declared = source.media_type.strip().lower()
                name = self.title or ""
                return Part.of_file(from_base64(source.data, declared, noun, name))
            case "text":
                return Part(type="text", text=source.data)
            case "file":
                raise reject_id(noun)
            case "url":
                raise fetches_nothing(noun)
        raise InvalidFile(
            "unsupported_content", "a source of that type is not taken; send one of type base64"
        )


class ToolResultBlock(_Block):
    type: Literal["tool_result"]
    tool_use_id: str
    content: ResultTexts = []
    is_error: bool = False


HOSTED = frozenset(
    {"server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "compaction"}
    | {"code_execution_tool_result", "bash_code_execution_tool_result", "container_upload"}
    | {"text_editor_code_execution_tool_result", "tool_search_tool_result"}
    | {"mcp_tool_use", "mcp_tool_result", "fallback"}
)
# Blocks that are read alike.
TAGS = {"redacted_thinking": "thinking", "image": "file", "document": "file"}


def _kind(block: Any) -> Any:
    given = block.get("type") if isinstance(block, dict) else getattr(block, "type", None)
    if not isinstance(given, str):
        return None
    return "hosted" if given in HOSTED or isinstance(block, HostedBlock) else TAGS.get(given, given)


class HostedBlock(_Block):
    """A call of a tool that Anthropic runs, or what it gave; the text after it says that too."""

    type: str


Block = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[HostedBlock, Tag("hosted")]
    | Annotated[ToolUseBlock, Tag("tool_use")]
    | Annotated[ToolResultBlock, Tag("tool_result")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[FileBlock, Tag("file")],
    Discriminator(
        _kind,
        custom_error_type="unsupported_block",
        custom_error_message="send blocks of type text, image, document, tool_use, tool_result or"
        " thinking",
    ),
]


class AnthropicMessage(BaseModel):
    """A message: text, or blocks."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["user", "assistant", "system"]
    content: Annotated[list[Block], BeforeValidator(_as_texts), Field(min_length=1)]

    @model_validator(mode="after")
    def _files_are_the_users(self) -> Self:
        require_texts_of(self.role, self.parts())
        return self

    def chat(self) -> list[ChatMessage]:
        """Results of calls are messages of their own, before what the user says."""
        results = [_result(block) for block in self.content if isinstance(block, ToolResultBlock)]
        parts = self.parts()
        calls = [_call(block) for block in self.content if isinstance(block, ToolUseBlock)]
        if not parts and not calls:
            return results
        return [*results, ChatMessage(role=self.role, content=parts, tool_calls=calls or None)]

    def parts(self) -> list[Part]:
        return [
            block.part if isinstance(block, FileBlock) else Part(type="text", text=block.text)
            for block in self.content
            if isinstance(block, FileBlock | TextBlock)
        ]


def text_of(blocks: list[TextBlock]) -> str:
    return "\n".join(block.text for block in blocks)


def _result(block: ToolResultBlock) -> ChatMessage:
    text = text_of(block.content)
    content = f"error: {text}" if block.is_error else text
    return ChatMessage(role="tool", tool_call_id=block.tool_use_id, content=_content(content))


def _content(text: str) -> list[Part]:
    return [Part(type="text", text=text)]


def _call(block: ToolUseBlock) -> ChatToolCall:
    function = FunctionCall(name=block.name, arguments=json.dumps(block.input))
    return ChatToolCall(id=block.id, function=function)
