import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from orchestrator_inference.engine.client import engine_client
from orchestrator_inference.engine.openai import OpenAiEngine
from orchestrator_inference.engine.replicas import EngineReplica, replica_urls
from orchestrator_inference.errors import EngineUnreachable


@dataclass
class _Known:
    replica: EngineReplica
    engine: OpenAiEngine
    client: AsyncExitStack
    seen: float


class MergedEngines:
    """A context manager. Engines come and go under a headless Service; `replicas` lists them."""

    def __init__(
        self, urls: Sequence[str], api_key: str | None, timeout_s: float, max_in_flight: int
    ) -> None:
        self._urls = urls
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._max_in_flight = max_in_flight
        # Kept a while when an address goes: calls under way on a pod that is leaving end there.
        self._known: dict[str, _Known] = {}
        self._there: list[_Known] = []

    async def replicas(self) -> list[EngineReplica]:
        """The current engines. A host name that does not resolve yet has none."""
        there: set[str] = set()
        for url in self._urls:
            with suppress(EngineUnreachable):
                there.update(await replica_urls(url))
        self._there = [await self._inspect(url) for url in sorted(there)]
        await self._close_gone(there)
        return [known.replica for known in self._there]

    def engines(self) -> list[OpenAiEngine]:
        """The engines of the last listing."""
        return [known.engine for known in self._there]

    async def _inspect(self, url: str) -> _Known:
        if url not in self._known:
            stack = AsyncExitStack()
            client = await stack.enter_async_context(
                engine_client(url, self._api_key, self._max_in_flight)
            )
            replica = EngineReplica(client, url, self._timeout_s)
            engine = OpenAiEngine(client, timeout_s=self._timeout_s)
            self._known[url] = _Known(replica, engine, stack, 0)
        self._known[url].seen = time.monotonic()
        return self._known[url]

    async def _close_gone(self, there: set[str]) -> None:
        """Closes clients of engines that left so long ago that no call to them is under way."""
        ended = time.monotonic() - self._timeout_s
        for url in self._known.keys() - there:
            if self._known[url].seen <= ended:
                await self._known.pop(url).client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for known in self._known.values():
            await known.client.aclose()
