"""Tools of kind llm: a language model, chosen by its alias, asked about the episode's task."""

import json
from typing import Any

import telemetry
from failures import FailureKind
from metering import Dimension, Usage, UsageSource
from tool_adapters.adapter import AdapterResult, CallFailed, Output, ToolCall
from tool_adapters.http_client import HttpClient, HttpReply, HttpRequest, status_failure
from tool_adapters.llm_apis import (
    AnthropicMessages,
    LlmApiFormat,
    OpenAiChat,
    Question,
    error_words,
    outcome_of,
)
from tool_adapters.models import JsonObject, LlmApi, LlmConnection, LlmModel, ToolDefinition
from tool_adapters.secret_store import PLATFORM, SecretStore
from tool_adapters.usage_reports import estimated_usage

APIS: dict[LlmApi, LlmApiFormat] = {
    LlmApi.OPENAI_CHAT: OpenAiChat(),
    LlmApi.ANTHROPIC_MESSAGES: AnthropicMessages(),
}
NOTHING_USED = Usage((), UsageSource.MEASURED)


class LlmAdapter:
    """Asks the model a call names, and reports usage as its provider did."""

    def __init__(self, client: HttpClient, secrets: SecretStore) -> None:
        self._client = client
        self._secrets = secrets

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        """The model's text; the SKU is the model's."""
        assert isinstance(tool.connection, LlmConnection)
        model = _model(tool.connection, tool.model_alias(call.arguments))
        question = _question(call, tool.connection)
        with telemetry.model_call(model.api.value, model.model) as span:
            reply = await self._ask(call, tool, model, question)
            result = _result(model, question, reply)
            _record(span, model, result)
        return result

    async def _ask(
        self, call: ToolCall, tool: ToolDefinition, model: LlmModel, question: Question
    ) -> HttpReply:
        api = APIS[model.api]
        owner = PLATFORM if tool.shared else call.tenant
        secret = self._secrets.value(owner, model.secret) if model.secret else ""
        url = model.base_url.rstrip("/") + api.path
        body = api.body(model, question)
        return await self._client.send(HttpRequest("POST", url, api.headers(secret), body), tool)

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        """Requests hold nothing."""

    async def close(self) -> None:
        """The client belongs to the server."""


def _model(connection: LlmConnection, alias: str) -> LlmModel:
    for model in connection.models:
        if model.alias == alias:
            return model
    aliases = ", ".join(model.alias for model in connection.models)
    raise CallFailed(FailureKind.NOT_FOUND, f"there is no model {alias}; choose one of {aliases}")


def _question(call: ToolCall, connection: LlmConnection) -> Question:
    """Findings first, then the task, then what the orchestrator adds in its own words."""
    prompt = call.arguments.get("prompt", "")
    parts = (
        f"What is known so far:\n{call.context}" if call.context else "",
        f"Task:\n{call.task}" if call.task else "",
        str(prompt),
    )
    limit = connection.max_output_tokens
    return Question(
        system_prompt=connection.system_prompt,
        prompt="\n\n".join(part for part in parts if part),
        max_output_tokens=min(call.max_output_tokens or limit, limit),
        temperature=connection.temperature,
    )


def _result(model: LlmModel, question: Question, reply: HttpReply) -> AdapterResult:
    content = _parsed(reply)
    if failure := status_failure(reply, error_words(content)):
        return AdapterResult(failure, _usage(model, content) or NOTHING_USED, model.sku)
    outcome = outcome_of(APIS[model.api], content)
    written = outcome.content if isinstance(outcome, Output) else ""
    estimate = estimated_usage(question.system_prompt + question.prompt, written)
    return AdapterResult(outcome, _usage(model, content) or estimate, model.sku)


def _usage(model: LlmModel, reply: Any) -> Usage | None:
    """The provider's report; None when there is none."""
    report = reply.get("usage") if isinstance(reply, dict) else None
    if not isinstance(report, dict):
        return None
    return APIS[model.api].usage(report, str(reply.get("id", "")))


def _parsed(reply: HttpReply) -> JsonObject | None:
    try:
        content = json.loads(reply.body)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _record(span: telemetry.ModelCall, model: LlmModel, result: AdapterResult) -> None:
    outcome = result.outcome
    read = sum(
        result.usage.get(dimension)
        for dimension in (
            Dimension.INPUT_FRESH,
            Dimension.CACHE_READ,
            Dimension.CACHE_WRITE_5M,
            Dimension.CACHE_WRITE_1H,
        )
    )
    written = result.usage.get(Dimension.OUTPUT_TEXT) + result.usage.get(Dimension.REASONING)
    reason = "stop" if isinstance(outcome, Output) else outcome.kind.value
    span.answered(model.model, int(read), int(written), reason)
