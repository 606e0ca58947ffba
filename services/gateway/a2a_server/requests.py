import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from a2a.types.a2a_pb2 import Part, Role, SendMessageRequest
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
)
from google.protobuf.json_format import MessageToDict

from gateway.a2a_server.card import TEXT
from gateway.attachments.files import InvalidFile, SentFile, from_url, placed
from gateway.mcp_server.options import NAME, checked
from gateway.mcp_server.run_task import TaskArguments
from gateway.models import ListOrder, PriorMessages
from podium_kit.rpc.identity import current_identity

WEBHOOKS = "register a webhook with POST /v1/webhooks; it tells of every task"
OUTPUT_MODES = frozenset({TEXT, "text/*", "*/*", "text", "text/markdown"})


@dataclass(frozen=True)
class TaskRequest:
    """A task, and the conversation that it belongs to; "" begins one."""

    arguments: TaskArguments
    message_id: str
    context_id: str
    task_id: str
    returns_at_once: bool
    history_length: int | None
    parts: tuple[str | SentFile, ...]

    @classmethod
    def of(cls, request: SendMessageRequest) -> "TaskRequest":
        """Raises what the protocol calls invalid, and MalformedRequest for the options."""
        message, configuration = request.message, request.configuration
        if message.role != Role.ROLE_USER:
            raise InvalidParamsError("message.role must be ROLE_USER: who asks is the user")
        if configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError(WEBHOOKS)
        _require_text(configuration.accepted_output_modes)
        parts = tuple(_part(index, part) for index, part in enumerate(message.parts))
        placed([part for part in parts if isinstance(part, SentFile)])
        return cls(
            arguments=_arguments(request, _text(parts)),
            message_id=message.message_id,
            context_id=message.context_id,
            task_id=message.task_id,
            returns_at_once=configuration.return_immediately,
            history_length=length_of(configuration),
            parts=parts,
        )

    @property
    def files(self) -> list[SentFile]:
        return [part for part in self.parts if isinstance(part, SentFile)]

    def after(self, before: PriorMessages, order: ListOrder) -> ListOrder:
        files = placed(self.files, before.files)
        return replace(order, task=_text(self.parts), history=before.messages, files=files)

    @property
    def key(self) -> str:
        """The same message again is the same task, of the same caller."""
        source = f"{current_identity().subject}\n{self.message_id}"
        return f"a2a/{hashlib.sha256(source.encode()).hexdigest()}"

    @property
    def body(self) -> bytes:
        digests = [file.attached().attachment.digest for file in self.files]
        return json.dumps([self.key, self.arguments.model_dump(mode="json"), digests]).encode()


def length_of(given: Any) -> int | None:
    if not given.HasField("history_length"):
        return None
    if given.history_length < 0:
        raise InvalidParamsError("history_length must be at least 0")
    return int(given.history_length)


def _arguments(request: SendMessageRequest, task: str) -> TaskArguments:
    """The message's own options go before those of the request."""
    options: dict[str, Any] = {}
    for metadata in (request.metadata, request.message.metadata):
        given = MessageToDict(metadata).get(NAME, {})
        if not isinstance(given, dict):
            raise InvalidParamsError(f"metadata.{NAME} must be an object")
        options.update(given)
    options["task"] = task
    return checked(TaskArguments, options, f"metadata.{NAME}.")


def _text(parts: Iterable[str | SentFile]) -> str:
    text = "\n".join(part if isinstance(part, str) else part.placeholder for part in parts)
    if not text.strip():
        raise InvalidParamsError("message.parts hold no text; write what to do")
    return text


def _part(index: int, part: Part) -> str | SentFile:
    place = f"message.parts[{index}]"
    match part.WhichOneof("content"):
        case "text":
            return part.text
        case "data":
            return json.dumps(MessageToDict(part.data), ensure_ascii=False)
        case "raw" | "url":
            try:
                file = _file(part)
            except InvalidFile as error:
                raise ContentTypeNotSupportedError(f"{place}: {error}") from error
            file.place = place
            return file
        case kind:
            raise ContentTypeNotSupportedError(
                f"{place} is of type {kind}: tasks take text, data and files"
            )


def _file(part: Part) -> SentFile:
    if part.WhichOneof("content") == "url":
        return from_url(part.url, "file", part.filename)
    return SentFile.of(part.raw, part.media_type.strip().lower(), part.filename)


def _require_text(modes: Iterable[str]) -> None:
    accepted = [mode.split(";")[0].strip().lower() for mode in modes]
    if accepted and OUTPUT_MODES.isdisjoint(accepted):
        raise ContentTypeNotSupportedError(
            f"answers are {TEXT}; add it to configuration.acceptedOutputModes"
        )
