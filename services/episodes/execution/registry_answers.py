"""Answers of the tool registry, kept for the calls that are alike."""

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from cachetools import TTLCache

from podium_kit.rpc.identity import Identity, Scope, acting_as

# Prices and measured latencies change without being announced.
TIME_TO_LIVE_S = 0.5
FOLLOWER = Identity("podium", "episodes", frozenset({Scope.EPISODES_RUN}))

Question = TypeVar("Question", bound=Hashable)
Answer = TypeVar("Answer")


class RegistryAnswers(Generic[Question, Answer]):
    """Answers that are kept for half a second, and no longer than until the catalogue changes."""

    def __init__(self, size_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._known: TTLCache[Question, Answer] = TTLCache(size_max, TIME_TO_LIVE_S, clock)
        self.changes = 0
        """Changes of the catalogue so far."""

    def __contains__(self, question: Question) -> bool:
        return question in self._known

    def get(self, question: Question) -> Answer | None:
        return self._known.get(question)

    def keep(self, question: Question, answer: Answer, changes: int) -> None:
        """Keeps an answer, unless the catalogue has changed since the registry was asked."""
        if changes == self.changes:
            self._known[question] = answer

    def drop(self) -> None:
        self.changes += 1
        self._known.clear()


class AnnouncedChanges(Protocol):
    async def await_change(self, version: int) -> int:
        """Returns the version of the catalogue once it is another, or after a while."""


class CatalogueFollower:
    """Drops what is kept of the registry's answers as soon as tools or policies change."""

    def __init__(
        self, catalogue: AnnouncedChanges, kept: Sequence[RegistryAnswers[Any, Any]]
    ) -> None:
        self._catalogue = catalogue
        self._kept = kept
        self._version = 0

    async def follow(self) -> bool:
        """Waits for one change; there is always a next one to wait for."""
        with acting_as(FOLLOWER):
            version = await self._catalogue.await_change(self._version)
        if version != self._version:
            for answers in self._kept:
                answers.drop()
            self._version = version
        return True
