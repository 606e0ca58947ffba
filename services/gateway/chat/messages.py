from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gateway.attachments.files import SentFile
from gateway.chat.call_ids import CallId
from gateway.chat.parts import Content, require_texts_of
from gateway.errors import InvalidChat
from gateway.models import ClientCall, EarlierMessage, SentMessage, ToolResults


class FunctionCall(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    arguments: str = "{}"


class ChatToolCall(BaseModel):
    """A call that the assistant asked for."""

    model_config = ConfigDict(extra="ignore")

    id: str
    function: FunctionCall

    @model_validator(mode="before")
    @classmethod
    def _of_a_custom_tool(cls, given: Any) -> Any:
        """A call of a custom tool has a text instead of arguments."""
        custom = given.get("custom") if isinstance(given, dict) else None
        if not isinstance(custom, dict):
            return given
        function = {"name": custom.get("name"), "arguments": custom.get("input", "")}
        return {**given, "function": function}


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = None
    tool_calls: list[ChatToolCall] | None = Field(None, description="of the assistant")
    tool_call_id: str | None = Field(None, description="of the call that a tool message answers")

    @model_validator(mode="after")
    def _files_are_the_users(self) -> Self:
        require_texts_of(self.role, self.content or ())
        return self

    def text(self) -> str:
        """The content as one text; files are what stands for them."""
        return "\n".join(part.text_in_message() for part in self.content or ())


@dataclass(frozen=True)
class Conversation:
    messages: Sequence[ChatMessage]

    def files(self) -> list[SentFile]:
        return [part.sent for each in self.messages for part in each.content or () if part.sent]

    def results(self) -> ToolResults | None:
        tail = list(takewhile(lambda each: each.role == "tool", reversed(self.messages)))
        ids = [CallId.read(message.tool_call_id or "") for message in tail]
        known = [found for found in ids if found is not None]
        if len(known) < len(tail) or not tail:
            return None
        first = known[0]
        if any((each.episode_id, each.turn) != (first.episode_id, first.turn) for each in known):
            raise InvalidChat(
                "the last tool messages answer calls of different turns; send those of the last",
                param="messages",
            )
        contents = [(call.index, tail[at].text()) for at, call in enumerate(known)]
        return ToolResults(first.episode_id, first.turn, tuple(reversed(contents)))

    def sent(self) -> tuple[SentMessage, ...]:
        """The messages as they are, for a model without an orchestrator. Raises InvalidChat."""
        self.task()
        return tuple(map(_sent, self.messages))

    def task(self) -> str:
        # Items that say nothing, like thoughts, are no messages.
        if self.messages and self.messages[-1].role not in ("user", "tool"):
            raise InvalidChat(
                "the last message is the task, so its role must be user", param="messages"
            )
        at = self._task_at()
        if at is None or not self.messages[at].text().strip():
            raise InvalidChat("the task is empty; write what to do", param="messages")
        since = [
            f"{each.role}: {each.content}" for each in self._as_history(self.messages[at + 1 :])
        ]
        return "\n\n".join([self.messages[at].text(), *since])

    def history(self) -> tuple[EarlierMessage, ...]:
        return tuple(self._as_history(self.messages[: self._task_at()]))

    def _task_at(self) -> int | None:
        places = range(len(self.messages) - 1, -1, -1)
        return next((at for at in places if self.messages[at].role == "user"), None)

    def _as_history(self, messages: Sequence[ChatMessage]) -> Iterator[EarlierMessage]:
        """The messages in words: orchestrators know no tools but their own."""
        names = {call.id: call.function.name for each in messages for call in each.tool_calls or ()}
        for message in messages:
            if message.role == "tool":
                name = names.get(message.tool_call_id or "", "the tool")
                yield EarlierMessage("user", f"{name} returned {message.text()}")
                continue
            calls = (
                f"{call.function.name}({call.function.arguments})"
                for call in message.tool_calls or ()
            )
            role = "system" if message.role == "developer" else message.role
            if text := "\n".join(filter(None, [message.text(), *calls])):
                yield EarlierMessage(role, text)


def _sent(message: ChatMessage) -> SentMessage:
    calls = (
        ClientCall(0, index, call.function.name, call.function.arguments, call.id)
        for index, call in enumerate(message.tool_calls or ())
    )
    role = "system" if message.role == "developer" else message.role
    return SentMessage(role, message.text(), tuple(calls), message.tool_call_id or "")
