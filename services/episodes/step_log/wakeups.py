import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Wakeups:
    """Events by the id of an episode or call; one may be set without news of it."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def notify(self, id: str) -> None:
        for event in self._waiting.get(id, ()):
            event.set()

    def notify_all(self) -> None:
        for events in self._waiting.values():
            for event in events:
                event.set()

    @contextmanager
    def of(self, id: str) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._waiting[id].add(event)
        try:
            yield event
        finally:
            self._waiting[id].discard(event)
            if not self._waiting[id]:
                del self._waiting[id]
