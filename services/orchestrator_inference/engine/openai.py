"""An OpenAI-compatible engine over HTTP: vLLM with everything training needs, others too."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import httpx
from httpx_aiohttp import AiohttpTransport

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

CONNECT_TIMEOUT_S = 5.0
LISTING_TIMEOUT_S = 30.0
PROBE_TIMEOUT_S = 1.0
# vLLM closes idle connections after 5 s; leaving first avoids a race for the last one.
KEEPALIVE_S = 3.0
LISTING_CONNECTIONS = 4


@asynccontextmanager
async def engine_client(
    base_url: str, api_key: str | None, connections: int
) -> AsyncIterator[httpx.AsyncClient]:
    """A pool of HTTP/1.1 connections: closing one is how a completion is aborted."""
    limits = httpx.Limits(
        max_connections=connections + LISTING_CONNECTIONS,
        keepalive_expiry=KEEPALIVE_S,
    )
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
    async with httpx.AsyncClient(
        base_url=base_url.rstrip("/") + "/",
        headers=headers,
        timeout=timeout,
        # httpx's own pool looks at every connection for every request.
        transport=AiohttpTransport(limits=limits),
    ) as client:
        yield client


class OpenAiEngine:
    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        timeout_s: float,
        default_model: str = "",
        model_aliases: Mapping[str, str] | None = None,
        families: ModelFamiliesFile | None = None,
    ) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._host = client.base_url.netloc.decode()
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
        with suppress(httpx.ReadTimeout):
            await self._catalogue.refresh(timeout_s=PROBE_TIMEOUT_S)

    async def count_tokens(self, call: ModelCall) -> int:
        if not call.model.is_vllm:
            raise TokensNotCounted(self._host)
        # One of vLLM's own endpoints; they lie beside /v1.
        url = self._client.base_url.join("/tokenize")
        async with self._reachable(LISTING_TIMEOUT_S):
            response = await self._client.post(url, json=Dialect(is_vllm=True).prompt(call))
        if not response.is_success:
            raise rejection(self._host, call.model.name, response, self._secret())
        try:
            return int(response.json()["count"])
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
                response, body = await self._post(call, dialect, on_text if constrained else None)
                if response.is_success:
                    latency_s = time.perf_counter() - started
                    body = response.json() if body is None else body
                    return completion_from(body, call, latency_s=latency_s, constrained=constrained)
            except (ValueError, RecursionError) as error:
                why = str(error) if isinstance(error, NotACompletion) else "the answer is not JSON"
                raise EngineProtocolError(self._host, why) from error
            learnt = dialect.learnt(response.status_code, body_of(response))
            if learnt == dialect:
                raise rejection(self._host, call.model.name, response, self._secret())
            self._dialects[call.model.name] = learnt

    def _dialect(self, model: EngineModel) -> Dialect:
        if model.is_vllm:
            return Dialect(is_vllm=True)
        found = self._families.capabilities(str(self._client.base_url), model.name)
        return Dialect(is_vllm=False, parameters=found.parameters())

    async def _post(
        self, call: ModelCall, dialect: Dialect, on_text: TextListener | None
    ) -> tuple[httpx.Response, Json | None]:
        """Returns the response, and the body that its events are together where it streams."""
        asked = self._client.stream(
            "POST",
            "chat/completions",
            content=json.dumps(dialect.body(call, streams=on_text is not None)),
            headers={"content-type": "application/json", "x-request-id": call.key},
        )
        async with self._reachable(self._timeout_s), asked as response:
            if on_text is not None and response.is_success and is_stream(response):
                try:
                    return response, await read_stream(response.aiter_bytes(), on_text)
                except BrokenOff as error:
                    raise broken_off(self._host, error.fault) from error
            await response.aread()
            return response, None

    @asynccontextmanager
    async def _reachable(self, timeout_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError as error:
            raise EngineTimedOut(self._host, timeout_s) from error
        except httpx.TransportError as error:
            raise EngineUnreachable(self._host, error) from error

    def _secret(self) -> str | None:
        return self._client.headers.get("authorization", "").removeprefix("Bearer ") or None


def _report(span: telemetry.ModelCall, completion: Completion) -> None:
    usage = completion.usage
    span.answered(
        completion.model_version,
        int(usage.get(Dimension.INPUT_FRESH) + usage.get(Dimension.CACHE_READ)),
        int(usage.get(Dimension.OUTPUT_TEXT) + usage.get(Dimension.REASONING)),
        completion.finish_reason,
    )
