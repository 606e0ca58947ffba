"""An OpenAI-compatible engine over HTTP: vLLM with everything training needs, others too."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import aiohttp

from orchestrator_inference.engine.client import EngineClient, EngineReply, whole
from orchestrator_inference.engine.dialect import Dialect
from orchestrator_inference.engine.engine import ModelCall, TextListener
from orchestrator_inference.engine.errors import body_of, broken_off, rejection
from orchestrator_inference.engine.models import ModelCatalogue
from orchestrator_inference.engine.reply import NotACompletion, completion_from
from orchestrator_inference.engine.streamed_reply import (
    BrokenOff,
    Json,
    is_stream,
    read_stream,
)
from orchestrator_inference.errors import (
    EngineProtocolError,
    EngineTimedOut,
    EngineUnreachable,
    TokensNotCounted,
)
from orchestrator_inference.models import Completion, EngineModel
from podium_kit import telemetry
from podium_kit.metering import Dimension
from podium_kit.models.model_families import ModelFamiliesFile

LISTING_TIMEOUT_S = 30.0
PROBE_TIMEOUT_S = 1.0


class OpenAiEngine:
    def __init__(
        self,
        client: EngineClient,
        *,
        timeout_s: float,
        default_model: str = "",
        model_aliases: Mapping[str, str] | None = None,
        families: ModelFamiliesFile | None = None,
    ) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._host = client.host
        self._families = families or ModelFamiliesFile()
        self._catalogue = ModelCatalogue(client, default_model, model_aliases or {}, self._families)
        self._dialects: dict[str, Dialect] = {}

    async def model(self, name: str) -> EngineModel:
        async with self._reachable(LISTING_TIMEOUT_S):
            return await self._catalogue.find(name)

    async def models(self) -> tuple[EngineModel, ...]:
        async with self._reachable(LISTING_TIMEOUT_S):
            return await self._catalogue.all()

    async def check(self) -> None:
        """Raises when the engine is gone. One too busy to list its models is not gone."""
        with suppress(aiohttp.SocketTimeoutError):
            await self._catalogue.refresh(timeout_s=PROBE_TIMEOUT_S)

    async def count_tokens(self, call: ModelCall) -> int:
        if not call.model.is_vllm:
            raise TokensNotCounted(self._host)
        url = self._client.from_root("/tokenize")
        async with self._reachable(LISTING_TIMEOUT_S):
            reply = await self._client.send("POST", url, Dialect(is_vllm=True).prompt(call))
        if not reply.is_success:
            raise rejection(self._host, call.model.name, reply, self._client.api_key)
        try:
            return int(reply.json()["count"])
        except (ValueError, KeyError, TypeError) as error:
            raise EngineProtocolError(self._host, "/tokenize gives no count") from error

    async def complete(self, call: ModelCall, on_text: TextListener | None = None) -> Completion:
        """An engine that rejects a part of the request is asked again without it."""
        provider = "vllm" if call.model.is_vllm else "openai"
        with telemetry.model_call(provider, call.model.name) as span:
            completion = await self._complete(call, on_text)
            _report(span, completion)
            span.content(call.messages[-1].content, completion.text)
            return completion

    async def _complete(self, call: ModelCall, on_text: TextListener | None) -> Completion:
        while True:
            dialect = self._dialects.get(call.model.name) or self._dialect(call.model)
            constrained = dialect.constrains(call)
            started = time.perf_counter()
            try:
                reply, body = await self._post(call, dialect, on_text if constrained else None)
                if reply.is_success:
                    latency_s = time.perf_counter() - started
                    body = reply.json() if body is None else body
                    return completion_from(body, call, latency_s=latency_s, constrained=constrained)
            except (ValueError, RecursionError) as error:
                why = str(error) if isinstance(error, NotACompletion) else "the answer is not JSON"
                raise EngineProtocolError(self._host, why) from error
            learnt = dialect.learnt(reply.status, body_of(reply))
            if learnt == dialect:
                raise rejection(self._host, call.model.name, reply, self._client.api_key)
            self._dialects[call.model.name] = learnt

    def _dialect(self, model: EngineModel) -> Dialect:
        if model.is_vllm:
            return Dialect(is_vllm=True)
        found = self._families.capabilities(self._client.base_url, model.name)
        return Dialect(is_vllm=False, parameters=found.parameters())

    async def _post(
        self, call: ModelCall, dialect: Dialect, on_text: TextListener | None
    ) -> tuple[EngineReply, Json | None]:
        """Returns the reply, and the body that its events are together where it streams."""
        asked = self._client.post(
            "chat/completions",
            dialect.body(call, streams=on_text is not None),
            {"x-request-id": call.key},
        )
        async with self._reachable(self._timeout_s), asked as response:
            if on_text is not None and response.ok and is_stream(response):
                try:
                    body = await read_stream(response.content.iter_any(), on_text)
                except BrokenOff as error:
                    raise broken_off(self._host, error.fault) from error
                return EngineReply(response.status, response.headers, b""), body
            return await whole(response), None

    @asynccontextmanager
    async def _reachable(self, timeout_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(timeout_s):
                yield
        # A connection that cannot be made in time is both of aiohttp's and a TimeoutError.
        except aiohttp.ClientError as error:
            raise EngineUnreachable(self._host, error) from error
        except TimeoutError as error:
            raise EngineTimedOut(self._host, timeout_s) from error


def _report(span: telemetry.ModelCall, completion: Completion) -> None:
    usage = completion.usage
    span.answered(
        completion.model_version,
        int(usage.get(Dimension.INPUT_FRESH) + usage.get(Dimension.CACHE_READ)),
        int(usage.get(Dimension.OUTPUT_TEXT) + usage.get(Dimension.REASONING)),
        completion.finish_reason,
    )
