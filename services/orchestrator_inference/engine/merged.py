"""Engines that each serve one merged version, found by name: one for each address of its host."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Self

from orchestrator_inference.engine.openai import OpenAiEngine, engine_client
from orchestrator_inference.engine.replicas import EngineReplica, replica_urls
from orchestrator_inference.errors import EngineUnreachable


class MergedEngines:
    """A context manager. Engines come and go under a headless Service; `replicas` looks again."""

    def __init__(
        self, urls: Sequence[str], api_key: str | None, timeout_s: float, max_in_flight: int
    ) -> None:
        self._urls = urls
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._max_in_flight = max_in_flight
        self._stack = AsyncExitStack()
        # Kept when an address goes: calls under way on a pod that is leaving end there.
        self._known: dict[str, tuple[EngineReplica, OpenAiEngine]] = {}
        self._there: list[str] = []

    async def replicas(self) -> list[EngineReplica]:
        """The current engines. A host name that does not resolve yet has none."""
        there: set[str] = set()
        for url in self._urls:
            with suppress(EngineUnreachable):
                there.update(await replica_urls(url))
        self._there = sorted(there)
        return [(await self._engine(url))[0] for url in self._there]

    def engines(self) -> list[OpenAiEngine]:
        """The engines that were there when they were last looked at."""
        return [self._known[url][1] for url in self._there]

    async def _engine(self, url: str) -> tuple[EngineReplica, OpenAiEngine]:
        if url not in self._known:
            client = await self._stack.enter_async_context(
                engine_client(url, self._api_key, self._max_in_flight)
            )
            replica = EngineReplica(client, url, self._timeout_s)
            self._known[url] = (replica, OpenAiEngine(client, timeout_s=self._timeout_s))
        return self._known[url]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()
