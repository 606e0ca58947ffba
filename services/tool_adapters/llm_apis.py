"""How the two APIs of language models want to be asked, and how they answer."""

from dataclasses import dataclass
from typing import Any, Protocol

from failures import FailureKind, ToolFailure
from metering import Usage
from tool_adapters.adapter import Output
from tool_adapters.models import JsonObject, LlmModel
from tool_adapters.usage_reports import anthropic_usage, openai_usage

ANTHROPIC_VERSION = "2023-06-01"
FILTERED = {"content_filter", "refusal"}


@dataclass(frozen=True)
class Question:
    """What a model is asked; `temperature` None leaves the provider's default."""

    system_prompt: str
    prompt: str
    max_output_tokens: int
    temperature: float | None


class LlmApiFormat(Protocol):
    """One API: where requests go, what is in them, and what is in a reply."""

    path: str

    def headers(self, secret: str) -> dict[str, str]:
        """Headers that carry the key, if there is one."""

    def body(self, model: LlmModel, question: Question) -> JsonObject:
        """The request."""

    def text_and_reason(self, reply: JsonObject) -> tuple[str, str]:
        """The answer and why it stopped. Raises KeyError, IndexError, TypeError."""

    def usage(self, report: JsonObject, request_id: str) -> Usage:
        """The reported usage in disjoint quantities."""


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
                {"role": "user", "content": question.prompt},
            ],
            "max_tokens": question.max_output_tokens,
        }
        return body | _temperature(question)

    def text_and_reason(self, reply: JsonObject) -> tuple[str, str]:
        choice = reply["choices"][0]
        return choice["message"].get("content") or "", choice.get("finish_reason") or ""

    def usage(self, report: JsonObject, request_id: str) -> Usage:
        return openai_usage(report, request_id)


class AnthropicMessages:
    """Anthropic's messages."""

    path = "/messages"

    def headers(self, secret: str) -> dict[str, str]:
        key = {"x-api-key": secret} if secret else {}
        return key | {"anthropic-version": ANTHROPIC_VERSION}

    def body(self, model: LlmModel, question: Question) -> JsonObject:
        body: JsonObject = {
            "model": model.model,
            "messages": [{"role": "user", "content": question.prompt}],
            "max_tokens": question.max_output_tokens,
        }
        if question.system_prompt:
            body["system"] = question.system_prompt
        return body | _temperature(question)

    def text_and_reason(self, reply: JsonObject) -> tuple[str, str]:
        texts = [block["text"] for block in reply["content"] if block["type"] == "text"]
        return "".join(texts), reply.get("stop_reason") or ""

    def usage(self, report: JsonObject, request_id: str) -> Usage:
        return anthropic_usage(report, request_id)


def outcome_of(api: LlmApiFormat, reply: Any) -> Output | ToolFailure:
    """The model's text, or why there is none."""
    try:
        text, reason = api.text_and_reason(reply)
    except (KeyError, IndexError, TypeError, AttributeError):
        return _malformed("the model server answered something else than its API promises")
    if text:
        return Output(text)
    if reason in FILTERED:
        return ToolFailure(FailureKind.TOOL_ERROR, f"the model did not answer ({reason})")
    mend = "; allow it more output tokens" if reason in {"length", "max_tokens"} else ""
    return _malformed(f"the model wrote no text (it stopped with {reason or 'no reason'}){mend}")


def error_words(reply: Any) -> str:
    """The message of an error reply of either API; "" when there is none."""
    error = reply.get("error") if isinstance(reply, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""


def _temperature(question: Question) -> JsonObject:
    return {} if question.temperature is None else {"temperature": question.temperature}


def _malformed(message: str) -> ToolFailure:
    return ToolFailure(FailureKind.MALFORMED_OUTPUT, message)
