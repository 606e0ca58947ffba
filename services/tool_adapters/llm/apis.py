"""How the two APIs of language models want to be asked, and how their answers stream.

Sources: OpenAI's API reference of streamed chat completions, as vLLM and KServe serve it, and
Anthropic's of streamed messages.
"""

from dataclasses import dataclass
from typing import Protocol

from podium_kit.metering import Usage
from podium_kit.metering.usage_reports import anthropic_usage, merged_report, openai_usage
from tool_adapters.adapter import Message
from tool_adapters.llm.completion import Completion
from tool_adapters.llm.files import anthropic_content, openai_content
from tool_adapters.models import JsonObject, LlmModel

ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True)
class Question:
    """What a model is asked; None leaves a parameter to the provider's default."""

    system_prompt: str
    messages: tuple[Message, ...]
    max_output_tokens: int
    temperature: float | None
    top_p: float | None = None

    @property
    def text(self) -> str:
        """All of it, for an estimate of its size."""
        return self.system_prompt + "".join(message.content for message in self.messages)

    @property
    def file_tokens(self) -> int:
        """Of its files, likewise."""
        return sum(
            part.attachment.estimated_tokens
            for message in self.messages
            for part in message.parts
            if not isinstance(part, str)
        )


class LlmApiFormat(Protocol):
    """One API: where requests go, what is in them, and what is in a reply.

    The readers raise KeyError, IndexError, TypeError or AttributeError for anything but the API.
    """

    path: str

    def headers(self, secret: str) -> dict[str, str]:
        """Headers that carry the key, if there is one."""

    def body(self, model: LlmModel, question: Question) -> JsonObject:
        """The request; it asks for a stream with a report of usage."""

    def read_event(self, event: JsonObject, completion: Completion) -> None:
        """Adds one event of a stream."""

    def read_reply(self, reply: JsonObject, completion: Completion) -> None:
        """Adds the reply of a server that does not stream."""

    def usage(self, report: JsonObject, request_id: str) -> Usage | None:
        """The reported usage in disjoint quantities; None when it counts nothing."""


class OpenAiChat:
    """Chat completions, spoken by OpenAI, vLLM, KServe and others."""

    path = "/chat/completions"

    def headers(self, secret: str) -> dict[str, str]:
        return {"authorization": f"Bearer {secret}"} if secret else {}

    def body(self, model: LlmModel, question: Question) -> JsonObject:
        system = [{"role": "system", "content": question.system_prompt}]
        body: JsonObject = {
            "model": model.model,
            "messages": [
                *(system if question.system_prompt else []),
                *(
                    {"role": message.role, "content": openai_content(message)}
                    for message in question.messages
                ),
            ],
            "max_tokens": question.max_output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return body | _sampling(question)

    def read_event(self, event: JsonObject, completion: Completion) -> None:
        completion.request_id = event.get("id") or completion.request_id
        completion.report = merged_report(completion.report, event.get("usage"))
        # The last event holds the report and no choice.
        for choice in event["choices"]:
            completion.write(choice["delta"].get("content") or "")
            completion.end(choice.get("finish_reason"))

    def read_reply(self, reply: JsonObject, completion: Completion) -> None:
        completion.request_id = reply.get("id") or ""
        completion.report = merged_report({}, reply.get("usage"))
        choice = reply["choices"][0]
        completion.write(choice["message"].get("content") or "")
        completion.end(choice.get("finish_reason") or "stop")

    def usage(self, report: JsonObject, request_id: str) -> Usage | None:
        return openai_usage(report, request_id)


class AnthropicMessages:
    """Anthropic's messages."""

    path = "/messages"

    def headers(self, secret: str) -> dict[str, str]:
        key = {"x-api-key": secret} if secret else {}
        return key | {"anthropic-version": ANTHROPIC_VERSION}

    def body(self, model: LlmModel, question: Question) -> JsonObject:
        said = [message for message in question.messages if message.role != "system"]
        system = [message.content for message in question.messages if message.role == "system"]
        body: JsonObject = {
            "model": model.model,
            "messages": [
                {"role": message.role, "content": anthropic_content(message)} for message in said
            ],
            "max_tokens": question.max_output_tokens,
            "stream": True,
        }
        if instructions := "\n\n".join(filter(None, [question.system_prompt, *system])):
            body["system"] = instructions
        return body | _sampling(question)

    def read_event(self, event: JsonObject, completion: Completion) -> None:
        match event["type"]:
            case "message_start":
                completion.request_id = event["message"]["id"]
                completion.report = merged_report({}, event["message"].get("usage"))
            case "content_block_delta" if event["delta"]["type"] == "text_delta":
                completion.write(event["delta"]["text"])
            case "message_delta":
                completion.end(event["delta"].get("stop_reason"))
                completion.report = merged_report(completion.report, event.get("usage"))

    def read_reply(self, reply: JsonObject, completion: Completion) -> None:
        completion.request_id = reply.get("id") or ""
        completion.report = merged_report({}, reply.get("usage"))
        for block in reply["content"]:
            if block["type"] == "text":
                completion.write(block["text"])
        completion.end(reply.get("stop_reason") or "end_turn")

    def usage(self, report: JsonObject, request_id: str) -> Usage | None:
        return anthropic_usage(report, request_id)


def error_words(reply: object) -> str:
    """The message of an error in a reply or event of either API; "" when there is none."""
    error = reply.get("error") if isinstance(reply, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""


def _sampling(question: Question) -> JsonObject:
    given = {"temperature": question.temperature, "top_p": question.top_p}
    return {name: value for name, value in given.items() if value is not None}
