"""Answers on their way from the worker whose model writes them to the servers whose callers watch.

Parts are notifications and nothing else: they are not stored, and one that is lost ends what is
shown of an answer, never the answer.
"""

import asyncio
import base64
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from cachetools import TTLCache

FLUSH_INTERVAL_S = 0.05
# A round that waits longer than a background task may take would pass for one that hangs.
IDLE_MAX_S = 10.0
# Of a notification, which has at most 8000 bytes: a character takes six in JSON at most.
CHARACTERS_MAX = 900
PREFIX = "answer:"
# What has been written of running answers, for watches that begin late.
ANSWERS_MAX, ANSWER_KEPT_S = 1000, 60.0


@dataclass(frozen=True)
class WrittenPart:
    """A text of a turn's answer, and the number of characters before it."""

    episode_id: str
    turn: int
    start: int
    text: str

    def notifications(self) -> Iterator[str]:
        for at in range(0, len(self.text), CHARACTERS_MAX):
            text = self.text[at : at + CHARACTERS_MAX]
            values = [self.episode_id, self.turn, self.start + at, text]
            # A comma parts the ids of other notifications.
            written = json.dumps(values, ensure_ascii=False).encode()
            yield PREFIX + base64.b64encode(written).decode()

    @classmethod
    def read(cls, notification: str) -> "WrittenPart | None":
        """Returns None for another notification."""
        if not notification.startswith(PREFIX):
            return None
        return cls(*json.loads(base64.b64decode(notification.removeprefix(PREFIX))))


class PartNotifier(Protocol):
    async def send(self, notifications: Sequence[str]) -> None: ...


class WrittenParts:
    """The worker's side: parts go out at once, and then every 50 ms."""

    def __init__(self, notifier: PartNotifier) -> None:
        self._notifier = notifier
        self._waiting: dict[str, WrittenPart] = {}
        self._ready = asyncio.Event()

    def add(self, part: WrittenPart) -> None:
        before = self._waiting.get(part.episode_id)
        if before is not None and part.start:
            part = replace(before, text=before.text + part.text)
        self._waiting[part.episode_id] = part
        self._ready.set()

    async def flush_next(self) -> None:
        try:
            async with asyncio.timeout(IDLE_MAX_S):
                await self._ready.wait()
        except TimeoutError:
            return
        self._ready.clear()
        waiting, self._waiting = self._waiting, {}
        await self._notifier.send(
            [each for part in waiting.values() for each in part.notifications()]
        )
        await asyncio.sleep(FLUSH_INTERVAL_S)


class AnswerAttempt:
    """One attempt at a turn whose answer is shown."""

    def __init__(self, parts: WrittenParts, episode_id: str, turn: int) -> None:
        self._parts = parts
        self._next = WrittenPart(episode_id, turn, 0, "")

    @property
    def has_begun(self) -> bool:
        return self._next.start > 0

    def show(self, text: str) -> None:
        self._parts.add(replace(self._next, text=text))
        self._next = replace(self._next, start=self._next.start + len(text))


class ArrivingParts:
    """The parts that a watcher has not taken yet."""

    def __init__(self) -> None:
        self._parts: list[WrittenPart] = []
        self._news = asyncio.Event()

    def put(self, part: WrittenPart) -> None:
        self._parts.append(part)
        self._news.set()

    async def arrived(self) -> None:
        await self._news.wait()

    def taken(self) -> list[WrittenPart]:
        self._news.clear()
        parts, self._parts = self._parts, []
        return parts


class WatchedAnswers:
    """The server's side: parts by episode, each attempt from its beginning and without gaps."""

    def __init__(self) -> None:
        self._written: TTLCache[str, WrittenPart] = TTLCache(ANSWERS_MAX, ANSWER_KEPT_S)
        self._watching: defaultdict[str, set[ArrivingParts]] = defaultdict(set)

    def take(self, notification: str) -> bool:
        """Returns whether a notification is a part of an answer."""
        part = WrittenPart.read(notification)
        if part is None:
            return False
        written = self._written.get(part.episode_id)
        if part.start == 0:
            self._written[part.episode_id] = part
        elif written and (written.turn, len(written.text)) == (part.turn, part.start):
            self._written[part.episode_id] = replace(written, text=written.text + part.text)
        else:
            return True
        for parts in self._watching.get(part.episode_id, ()):
            parts.put(part)
        return True

    @contextmanager
    def of(self, episode_id: str) -> Iterator[ArrivingParts]:
        parts = ArrivingParts()
        if written := self._written.get(episode_id):
            parts.put(written)
        self._watching[episode_id].add(parts)
        try:
            yield parts
        finally:
            self._watching[episode_id].discard(parts)
            if not self._watching[episode_id]:
                del self._watching[episode_id]
