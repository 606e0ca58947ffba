"""What a message of an agent asks for."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
)
from google.protobuf.json_format import MessageToDict

from gateway.a2a_server.card import TEXT
from gateway.mcp_server.options import NAME, checked
from gateway.mcp_server.run_task import TaskArguments
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

    @classmethod
    def of(cls, request: SendMessageRequest) -> "TaskRequest":
        """Raises what the protocol calls invalid, and MalformedRequest for the options."""
        message, configuration = request.message, request.configuration
        if message.role != Role.ROLE_USER:
            raise InvalidParamsError("message.role must be ROLE_USER: who asks is the user")
        if configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError(WEBHOOKS)
        _require_text(configuration.accepted_output_modes)
        return cls(
            arguments=_arguments(request),
            message_id=message.message_id,
            context_id=message.context_id,
            task_id=message.task_id,
            returns_at_once=configuration.return_immediately,
            history_length=length_of(configuration),
        )

    @property
    def key(self) -> str:
        """The same message again is the same task, of the same caller."""
        said = f"{current_identity().subject}\n{self.message_id}"
        return f"a2a/{hashlib.sha256(said.encode()).hexdigest()}"

    @property
    def body(self) -> bytes:
        return json.dumps([self.key, self.arguments.model_dump(mode="json")]).encode()


def length_of(given: Any) -> int | None:
    """Of a history, where the request says it. Raises InvalidParamsError."""
    if not given.HasField("history_length"):
        return None
    if given.history_length < 0:
        raise InvalidParamsError("history_length must be at least 0")
    return int(given.history_length)


def _arguments(request: SendMessageRequest) -> TaskArguments:
    """The message's own options go before those of the request."""
    options: dict[str, Any] = {}
    for metadata in (request.metadata, request.message.metadata):
        given = MessageToDict(metadata).get(NAME, {})
        if not isinstance(given, dict):
            raise InvalidParamsError(f"metadata.{NAME} must be an object")
        options.update(given)
    options["task"] = _text(request.message)
    return checked(TaskArguments, options, f"metadata.{NAME}.")


def _text(message: Message) -> str:
    parts = [_part(index, part) for index, part in enumerate(message.parts)]
    if not (text := "\n".join(parts)).strip():
        raise InvalidParamsError("message.parts hold no text; write what to do")
    return text


def _part(index: int, part: Part) -> str:
    match part.WhichOneof("content"):
        case "text":
            return part.text
        case "data":
            return json.dumps(MessageToDict(part.data), ensure_ascii=False)
        case kind:
            raise ContentTypeNotSupportedError(
                f"message.parts[{index}] is of type {kind}: tasks take text and data"
            )


def _require_text(modes: Iterable[str]) -> None:
    accepted = [mode.split(";")[0].strip().lower() for mode in modes]
    if accepted and OUTPUT_MODES.isdisjoint(accepted):
        raise ContentTypeNotSupportedError(
            f"answers are {TEXT}; add it to configuration.acceptedOutputModes"
        )
