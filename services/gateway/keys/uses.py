from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Protocol

from podium_kit.rpc.errors import Unavailable

WRITE_INTERVAL_S = 10.0


class UseStore(Protocol):
    async def note_uses(self, uses: Mapping[str, datetime]) -> None: ...


class KeyUses:
    """One write per key and interval, however many requests it made."""

    def __init__(self, store: UseStore) -> None:
        self._store = store
        self._uses: dict[str, datetime] = {}

    def note(self, key_id: str) -> None:
        self._uses[key_id] = datetime.now(UTC)

    async def write(self) -> None:
        """Writes what was collected; to be called every WRITE_INTERVAL_S."""
        if self._uses:
            uses, self._uses = self._uses, {}
            try:
                await self._store.note_uses(uses)
            except Unavailable:
                self._uses = uses | self._uses
                raise
