import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from podium_kit import telemetry
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.metering import COMPLETION_TOKENS, PROMPT_TOKENS, Usage
from podium_kit.metering.usage_reports import estimated_usage
from tool_adapters.adapter import NOTHING_USED, Adapter, AdapterResult, CallFailed, Output, ToolCall
from tool_adapters.http.client import Credential, HttpClient, HttpRequest, host_of
from tool_adapters.llm.apis import (
    AnthropicMessages,
    LlmApiFormat,
    OpenAiChat,
    OpenAiResponses,
    Question,
)
from tool_adapters.llm.completion import FILTER, LENGTH, REFUSAL, StreamedCompletion, usage_of_cut
from tool_adapters.llm.embeddings import (
    PATH,
    REPLY_BYTES_MAX,
    embeddings_body,
    embeddings_usage,
    read_embeddings,
)
from tool_adapters.llm.endpoints import Endpoints
from tool_adapters.llm.model_parameters import ModelParameters
from tool_adapters.llm.own_servers import OwnServers
from tool_adapters.llm.parts import AnswerParts
from tool_adapters.llm.prompts import Prompts
from tool_adapters.llm.providers import Providers
from tool_adapters.llm.stream import learnt_from, read_completion, require_success
from tool_adapters.models import JsonObject, LlmApi, LlmConnection, LlmModel, ToolDefinition
from tool_adapters.secret_store import PLATFORM, SecretStore, for_header, holder
from tool_adapters.used_secrets import used_secrets

APIS: dict[LlmApi, LlmApiFormat] = {
    LlmApi.OPENAI_CHAT: OpenAiChat(),
    LlmApi.OPENAI_RESPONSES: OpenAiResponses(),
    LlmApi.ANTHROPIC_MESSAGES: AnthropicMessages(),
}
PARTIAL_SHOWN = 2000


class LlmAdapter(Adapter):
    def __init__(
        self,
        client: HttpClient,
        secrets: SecretStore,
        prompts: Prompts,
        providers: Providers,
        parameters: ModelParameters,
        *,
        own_servers: OwnServers,
    ) -> None:
        self._client = client
        self._secrets = secrets
        self._prompts = prompts
        self._providers = providers
        self._endpoints = Endpoints()
        self._parameters = parameters
        self._own_servers = own_servers

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        assert isinstance(tool.connection, LlmConnection)
        models = [each for each in tool.connection.models if each.alias == call.model_alias]
        ask: Callable[[LlmModel], Awaitable[AdapterResult]]
        if models[0].api is LlmApi.OPENAI_EMBEDDINGS:
            ask = partial(self._vectors, call, tool, embeddings_body(models[0], call.arguments))
        else:
            question = self._prompts.question(call, tool.connection)
            ask = partial(self._answer, call, tool, question)

        async def ask_in_turn(model: LlmModel) -> AdapterResult:
            # Should the wait for a place be cut off: until the request is sent nothing is used.
            call.cut.usage, call.cut.unsent = NOTHING_USED, True
            async with self._providers.slot(call.tenant, model):
                with telemetry.model_call(model.api.value, model.model) as span:
                    result = await self._own_servers.answer(model, call.cut, ask)
                    _record(span, model, result)
            return result

        return await self._endpoints.answer(call.tenant, _owner(call, tool), models, ask_in_turn)

    async def _vectors(
        self, call: ToolCall, tool: ToolDefinition, body: JsonObject, model: LlmModel
    ) -> AdapterResult:
        """Fails as a whole where one of the texts has no vector."""
        texts, url = body["input"], model.base_url.rstrip("/") + PATH
        try:
            secret = await self._secret(call, tool, model)
            headers = {"authorization": f"Bearer {secret}"} if secret else {}
            credential = _credential(call, tool, model)
            request = HttpRequest("POST", url, headers, body, credential=credential)
            # A request that is cut off once it is sent may be billed.
            call.cut.usage = embeddings_usage({}, texts, "")
            async with self._client.opened(request, tool, call.cut) as arriving:
                reply = await arriving.whole(REPLY_BYTES_MAX)
            require_success(reply)
            output, report = await asyncio.to_thread(read_embeddings, reply.body, len(texts))
        except CallFailed as error:
            return AdapterResult(error.failure, NOTHING_USED, model.sku, unsent=error.unsent)
        usage = embeddings_usage(report, texts, reply.headers.get("x-request-id", ""))
        return AdapterResult(output, usage, model.sku)

    async def _secret(self, call: ToolCall, tool: ToolDefinition, model: LlmModel) -> str:
        if not (name := model.secret):
            return ""
        host = host_of(model.base_url)
        return for_header(name, await self._secrets.value(_owner(call, tool), name, host))

    async def _answer(
        self, call: ToolCall, tool: ToolDefinition, question: Question, model: LlmModel
    ) -> AdapterResult:
        listener = call.cut.listener
        parts = AnswerParts(listener, used_secrets()) if listener else None
        offered = bool(question.options.functions)
        completion = StreamedCompletion(parts=parts, takes_calls=offered)
        call.cut.sent_usage = _estimated(question, completion)
        try:
            await self._ask(call, tool, model, question, completion)
            if parts is not None:
                parts.end()
        except CallFailed as error:
            usage = _usage_of_failure(model, question, completion)
            failure = _with_partial(error.failure, completion)
            return AdapterResult(failure, usage, model.sku, unsent=error.unsent)
        except asyncio.CancelledError:
            if not call.cut.unsent:
                call.cut.usage = _usage_of_cut(model, question, completion)
            call.cut.content = used_secrets().redact(completion.text[-PARTIAL_SHOWN:])
            raise
        outcome = _outcome(completion, cut_is_answer=call.conversation is not None)
        usage = replace(_usage(model, question, completion), service_class=completion.service_class)
        return AdapterResult(outcome, usage, model.sku, finish_reason=completion.finish_reason)

    async def _ask(
        self,
        call: ToolCall,
        tool: ToolDefinition,
        model: LlmModel,
        question: Question,
        completion: StreamedCompletion,
    ) -> None:
        api = APIS[model.api]
        _require_logprobs(api, model, question)
        secret = await self._secret(call, tool, model)
        url = model.base_url.rstrip("/") + api.path
        headers = {**model.options.headers, **api.headers(secret)}
        body = api.body(model, question)
        credential, owner = _credential(call, tool, model), _owner(call, tool)
        parameters = await self._parameters.find(owner, model)
        while True:
            fitted = parameters.fitted(body)
            request = HttpRequest("POST", url, headers, fitted, credential=credential)
            async with self._client.opened(request, tool, call.cut) as arriving:
                learnt = await learnt_from(arriving, parameters, tool.limits.max_output_bytes)
                if learnt is None:
                    bytes_max = tool.limits.max_output_bytes
                    await read_completion(arriving, api, completion, bytes_max)
                    return
            # What was rejected cost nothing; every time less is left to reject.
            parameters = await self._parameters.learn(owner, model, parameters, learnt)


def _owner(call: ToolCall, tool: ToolDefinition) -> str:
    return PLATFORM if tool.shared else call.tenant


def _credential(call: ToolCall, tool: ToolDefinition, model: LlmModel) -> Credential:
    return (holder(_owner(call, tool), model.secret), model.secret)


def _outcome(completion: StreamedCompletion, cut_is_answer: bool = False) -> Output | ToolFailure:
    """The model's text, or why there is none: who speaks to a model directly sees that it wrote
    nothing, and why it stopped."""
    if completion.has_begun or (cut_is_answer and completion.is_cut):
        logprobs = json.dumps({"content": completion.logprobs}) if completion.logprobs else ""
        calls = tuple(completion.calls[index] for index in sorted(completion.calls))
        return Output(completion.text, function_calls=calls, logprobs_json=logprobs)
    if completion.finish_reason in (FILTER, REFUSAL):
        message = f"the model did not answer ({completion.reason})"
        return ToolFailure(FailureKind.TOOL_ERROR, message)
    fix = "; allow it more output tokens" if completion.finish_reason == LENGTH else ""
    message = f"the model wrote no text (it stopped with {completion.reason}){fix}"
    return ToolFailure(FailureKind.MALFORMED_OUTPUT, message)


def _with_partial(failure: ToolFailure, completion: StreamedCompletion) -> ToolFailure:
    """Adds the partial text to a failure, so that it is not bought a second time."""
    if not completion.has_begun:
        return failure
    written = completion.written[-PARTIAL_SHOWN:]
    return ToolFailure(failure.kind, f"{failure.message}; it had written: {written}")


def _require_logprobs(api: LlmApiFormat, model: LlmModel, question: Question) -> None:
    if question.options.top_logprobs is not None and not api.reports_logprobs:
        message = f"{model.model} reports no log-probabilities; leave logprobs out"
        raise CallFailed(FailureKind.INVALID_ARGUMENTS, message, unsent=True)


def _usage(model: LlmModel, question: Question, completion: StreamedCompletion) -> Usage:
    return _reported(model, completion) or _estimated(question, completion)


def _usage_of_failure(model: LlmModel, question: Question, completion: StreamedCompletion) -> Usage:
    if not completion.has_begun and not completion.report:
        return NOTHING_USED
    return _usage_of_cut(model, question, completion)


def _usage_of_cut(model: LlmModel, question: Question, completion: StreamedCompletion) -> Usage:
    return usage_of_cut(_reported(model, completion), _estimated(question, completion))


def _estimated(question: Question, completion: StreamedCompletion) -> Usage:
    return estimated_usage(question.text, completion.written, question.file_tokens)


def _reported(model: LlmModel, completion: StreamedCompletion) -> Usage | None:
    if not completion.report:
        return None
    return APIS[model.api].usage(completion.report, completion.request_id)


def _record(span: telemetry.ModelCall, model: LlmModel, result: AdapterResult) -> None:
    read = sum(map(result.usage.get, PROMPT_TOKENS))
    written = sum(map(result.usage.get, COMPLETION_TOKENS))
    reason = "stop" if isinstance(result.outcome, Output) else result.outcome.kind.value
    span.answered(model.model, int(read), int(written), reason)
