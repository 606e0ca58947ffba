"""Answers of the tool registry, kept for the calls that are alike."""

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from cachetools import TLRUCache

from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import Identity, Scope, acting_as

# Prices and measured latencies change without being announced. The registry keeps a price as long.
TIME_TO_LIVE_S = 5.0
# Of a rejection, whose cause is repaired and tried again, and of all while no change is announced.
TIME_TO_LIVE_BRIEFLY_S = 0.5
# The version that the registry answers with its own at once.
UNKNOWN = 0
FOLLOWER = Identity("podium", "episodes", frozenset({Scope.LEDGER_WRITE}))

Question = TypeVar("Question", bound=Hashable)
Answer = TypeVar("Answer")


class RegistryAnswers(Generic[Question, Answer]):
    """Answers that are kept for seconds, and no longer than until the catalogue changes."""

    def __init__(self, size_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        # Beside each answer, for how long it is kept.
        self._known: TLRUCache[Question, tuple[Answer, float]] = TLRUCache(
            size_max, lambda _question, kept, now: now + kept[1], clock
        )
        self.changes = 0
        """Changes of the catalogue so far."""
        self._are_announced = False

    def __contains__(self, question: Question) -> bool:
        return question in self._known

    def get(self, question: Question) -> Answer | None:
        kept = self._known.get(question)
        return kept[0] if kept is not None else None

    def keep(
        self, question: Question, answer: Answer, changes: int, *, is_brief: bool = False
    ) -> None:
        """Keeps an answer, unless the catalogue has changed since the registry was asked."""
        if changes == self.changes:
            is_brief = is_brief or not self._are_announced
            time_to_live_s = TIME_TO_LIVE_BRIEFLY_S if is_brief else TIME_TO_LIVE_S
            self._known[question] = (answer, time_to_live_s)

    def drop(self, *, are_announced: bool) -> None:
        """Drops all after a change, or because changes are not announced any more."""
        self.changes += 1
        self._known.clear()
        self._are_announced = are_announced


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
        self._version = UNKNOWN

    async def follow(self) -> bool:
        """Waits for one change; there is always a next one to wait for."""
        try:
            with acting_as(FOLLOWER):
                version = await self._catalogue.await_change(self._version)
        except DomainError:
            self._version = UNKNOWN
            self._drop(are_announced=False)
            raise
        if version != self._version:
            self._version = version
            self._drop(are_announced=True)
        return True

    def _drop(self, *, are_announced: bool) -> None:
        for answers in self._kept:
            answers.drop(are_announced=are_announced)
