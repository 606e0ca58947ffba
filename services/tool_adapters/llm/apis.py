"""The requests of the APIs of language models, and the streams of their answers.

Sources: OpenAI's API references of streamed chat completions, as vLLM and KServe serve it, and of
streamed responses, and Anthropic's of streamed messages.
"""

import json
from dataclasses import dataclass
from typing import Any, Protocol

from podium_kit.metering import Usage
from podium_kit.metering.usage_reports import (
    anthropic_usage,
    merged_report,
    openai_responses_usage,
    openai_usage,
)
from tool_adapters.adapter import NO_OPTIONS, AnswerOptions, ModelMessage
from tool_adapters.llm.completion import LENGTH, StreamedCompletion
from tool_adapters.llm.functions import (
    anthropic_messages,
    anthropic_options,
    openai_message,
    openai_options,
    responses_items,
    responses_options,
)
from tool_adapters.models import JsonObject, LlmModel

ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True)
class Question:
    """A question to a model; None leaves a parameter to the provider's default."""

    system_prompt: str
    messages: tuple[ModelMessage, ...]
    max_output_tokens: int
    temperature: float | None
    top_p: float | None = None
    seed: int | None = None
    options: AnswerOptions = NO_OPTIONS

    @property
    def text(self) -> str:
        """The whole question, for an estimate of its size."""
        texts = [message.content for message in self.messages]
        calls = [call for message in self.messages for call in message.function_calls]
        texts += [f"{call.name}{call.arguments}" for call in calls]
        offered = self.options.functions
        texts += [f"{each.name}{each.description}{each.parameters_schema}" for each in offered]
        return self.system_prompt + "".join(texts)

    @property
    def file_tokens(self) -> int:
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
    reports_logprobs: bool

    def headers(self, secret: str) -> dict[str, str]: ...

    def body(self, model: LlmModel, question: Question) -> JsonObject:
        """The request; it asks for a stream with a report of usage."""

    def read_event(self, event: JsonObject, completion: StreamedCompletion) -> None: ...

    def read_reply(self, reply: JsonObject, completion: StreamedCompletion) -> None: ...

    def usage(self, report: JsonObject, request_id: str) -> Usage | None:
        """The reported usage in disjoint quantities; None when it counts nothing."""


class OpenAiChat:
    path = "/chat/completions"
    reports_logprobs = True

    def headers(self, secret: str) -> dict[str, str]:
        return {"authorization": f"Bearer {secret}"} if secret else {}

    def body(self, model: LlmModel, question: Question) -> JsonObject:
        system = [{"role": "system", "content": question.system_prompt}]
        body: JsonObject = {
            "model": model.model,
            "messages": [
                *(system if question.system_prompt else []),
                *map(openai_message, question.messages),
            ],
            "max_tokens": question.max_output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        options = model.options
        body |= _stated(reasoning_effort=options.reasoning_effort, verbosity=options.verbosity)
        body |= {} if question.seed is None else {"seed": question.seed}
        return body | openai_options(question.options) | _common(model, question)

    def read_event(self, event: JsonObject, completion: StreamedCompletion) -> None:
        completion.request_id = event.get("id") or completion.request_id
        note_report(event, completion)
        # Events hold reports, marks of filters and other things, with and without a choice.
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            completion.write(_openai_text(delta.get("content")))
            completion.refuse(delta.get("refusal"))
            _note_calls(delta, completion)
            completion.note_logprobs(choice.get("logprobs"))
            completion.end(choice.get("finish_reason"))

    def read_reply(self, reply: JsonObject, completion: StreamedCompletion) -> None:
        completion.request_id = reply.get("id") or ""
        note_report(reply, completion)
        choice = reply["choices"][0]
        message = choice.get("message") or {}
        completion.write(_openai_text(message.get("content")))
        completion.refuse(message.get("refusal"))
        _note_calls(message, completion)
        completion.note_logprobs(choice.get("logprobs"))
        completion.end(choice.get("finish_reason") or "stop")

    def usage(self, report: JsonObject, request_id: str) -> Usage | None:
        return openai_usage(report, request_id)


class OpenAiResponses:
    """Responses, the only API of OpenAI's pro, codex and deep-research models."""

    path = "/responses"
    reports_logprobs = False

    def headers(self, secret: str) -> dict[str, str]:
        return {"authorization": f"Bearer {secret}"} if secret else {}

    def body(self, model: LlmModel, question: Question) -> JsonObject:
        body: JsonObject = {
            "model": model.model,
            "input": [item for each in question.messages for item in responses_items(each)],
            "max_output_tokens": question.max_output_tokens,
            "stream": True,
            # OpenAI keeps a response for thirty days otherwise.
            "store": False,
        }
        if question.system_prompt:
            body["instructions"] = question.system_prompt
        options = responses_options(question.options)
        body |= _stated(
            reasoning=_stated(effort=model.options.reasoning_effort),
            text=_stated(verbosity=model.options.verbosity) | options.pop("text", {}),
        )
        return body | options | _common(model, question)

    def read_event(self, event: JsonObject, completion: StreamedCompletion) -> None:
        match event["type"]:
            case "response.output_text.delta":
                completion.write(event["delta"])
            case "response.refusal.delta":
                completion.refuse(event["delta"])
            case "response.output_item.added" if event["item"]["type"] == "function_call":
                call = event["item"]
                completion.call(event["output_index"], call["call_id"], call["name"], "")
            case "response.function_call_arguments.delta":
                completion.call(event["output_index"], "", "", event["delta"])
            case "response.created":
                completion.request_id = event["response"].get("id") or ""
            case "response.completed" | "response.incomplete":
                note_report(event["response"], completion)
                completion.end(_responses_reason(event["response"]))

    def read_reply(self, reply: JsonObject, completion: StreamedCompletion) -> None:
        completion.request_id = reply.get("id") or ""
        note_report(reply, completion)
        for index, item in enumerate(reply["output"]):
            if item["type"] == "function_call":
                completion.call(index, item["call_id"], item["name"], item.get("arguments"))
            for part in (item.get("content") or ()) if item["type"] == "message" else ():
                completion.write(part.get("text") or "")
                completion.refuse(part.get("refusal"))
        completion.end(_responses_reason(reply))

    def usage(self, report: JsonObject, request_id: str) -> Usage | None:
        return openai_responses_usage(report, request_id)


def _responses_reason(response: JsonObject) -> str:
    """The reason of an incomplete response, or "stop"."""
    details = response.get("incomplete_details") or {}
    return details.get("reason") or ("stop" if response["status"] == "completed" else LENGTH)


class AnthropicMessages:
    path = "/messages"
    reports_logprobs = False

    def headers(self, secret: str) -> dict[str, str]:
        key = {"x-api-key": secret} if secret else {}
        return key | {"anthropic-version": ANTHROPIC_VERSION}

    def body(self, model: LlmModel, question: Question) -> JsonObject:
        dialogue = [message for message in question.messages if message.role != "system"]
        system = [message.content for message in question.messages if message.role == "system"]
        body: JsonObject = {
            "model": model.model,
            "messages": anthropic_messages(dialogue),
            "max_tokens": question.max_output_tokens,
            "stream": True,
        }
        if instructions := "\n\n".join(filter(None, [question.system_prompt, *system])):
            body["system"] = instructions
        options = anthropic_options(question.options)
        output = options.pop("output_config", {}) | _stated(effort=model.options.reasoning_effort)
        body |= _stated(output_config=output)
        return body | options | _common(model, question)

    def read_event(self, event: JsonObject, completion: StreamedCompletion) -> None:
        match event["type"]:
            case "message_start":
                completion.request_id = event["message"]["id"]
                note_report(event["message"], completion)
            case "content_block_delta" if event["delta"]["type"] == "text_delta":
                completion.write(event["delta"]["text"])
            case "content_block_start" if event["content_block"]["type"] == "tool_use":
                call = event["content_block"]
                completion.call(event["index"], call["id"], call["name"], "")
            case "content_block_delta" if event["delta"]["type"] == "input_json_delta":
                completion.call(event["index"], "", "", event["delta"]["partial_json"])
            case "message_delta":
                completion.end((event.get("delta") or {}).get("stop_reason"))
                note_report(event, completion)

    def read_reply(self, reply: JsonObject, completion: StreamedCompletion) -> None:
        completion.request_id = reply.get("id") or ""
        note_report(reply, completion)
        for index, block in enumerate(reply["content"]):
            if block["type"] == "text":
                completion.write(block["text"])
            elif block["type"] == "tool_use":
                completion.call(index, block["id"], block["name"], json.dumps(block["input"]))
        completion.end(reply.get("stop_reason") or "end_turn")

    def usage(self, report: JsonObject, request_id: str) -> Usage | None:
        return anthropic_usage(report, request_id)


def note_report(event: JsonObject, completion: StreamedCompletion) -> None:
    """The report of usage and the class of service, wherever providers put them."""
    within = [event.get(name) for name in ("x_groq", "response")]
    reports = [each.get("usage") for each in (event, *within) if isinstance(each, dict)]
    choices = event.get("choices")
    choices = choices if isinstance(choices, list) else []
    reports += [choice.get("usage") for choice in choices if isinstance(choice, dict)]
    for report in reports:
        completion.report = merged_report(completion.report, report)
        if isinstance(report, dict):
            completion.serve(report.get("service_tier"))
    completion.serve(event.get("service_tier"))


def _note_calls(message: JsonObject, completion: StreamedCompletion) -> None:
    for place, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") or {}
        # Whole replies do not number them, and some streams neither.
        index = call.get("index", place)
        completion.call(index, call.get("id"), function.get("name"), function.get("arguments"))


def _openai_text(content: object) -> object:
    """The text of a content that is one, or a list of parts of which some are thoughts."""
    if not isinstance(content, list):
        return content or ""
    return "".join(part["text"] for part in content if part.get("type") == "text")


def _common(model: LlmModel, question: Question) -> JsonObject:
    """The fields that all APIs name alike, and those of the tool's owner."""
    given = {"temperature": question.temperature, "top_p": question.top_p}
    sampling = {name: value for name, value in given.items() if value is not None}
    return sampling | _stated(service_tier=model.options.service_tier) | model.options.body


def _stated(**fields: Any) -> JsonObject:
    return {name: value for name, value in fields.items() if value}
