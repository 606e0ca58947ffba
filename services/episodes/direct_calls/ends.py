"""Requests of this process that wait for the end of a direct call."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class CallEnds:
    """Events by the id of a call; one may be set before its call has ended."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def notify(self, call_id: str) -> None:
        for event in self._waiting.get(call_id, ()):
            event.set()

    def notify_all(self) -> None:
        """Wakes every waiter, because notifications may have been lost."""
        for events in self._waiting.values():
            for event in events:
                event.set()

    @contextmanager
    def of(self, call_id: str) -> Iterator[asyncio.Event]:
        """Yields an event that is set once the call has ended."""
        event = asyncio.Event()
        self._waiting[call_id].add(event)
        try:
            yield event
        finally:
            self._waiting[call_id].discard(event)
            if not self._waiting[call_id]:
                del self._waiting[call_id]
