"""Who waits for the end of a direct call in this process."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class CallEnds:
    """Woken by the id of a call; a wake may also come for nothing."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def notify(self, call_id: str) -> None:
        for event in self._waiting.get(call_id, ()):
            event.set()

    def notify_all(self) -> None:
        """Has everybody look: notifications may have been lost."""
        for events in self._waiting.values():
            for event in events:
                event.set()

    @contextmanager
    def of(self, call_id: str) -> Iterator[asyncio.Event]:
        """Is set when the call has ended after this was entered, or earlier."""
        event = asyncio.Event()
        self._waiting[call_id].add(event)
        try:
            yield event
        finally:
            self._waiting[call_id].discard(event)
            if not self._waiting[call_id]:
                del self._waiting[call_id]
