"""Workspaces of a test that has no database."""

from datetime import timedelta

from tool_adapters.workspaces.models import Saved, Whose
from tool_adapters.workspaces.service import Workspaces


class MemoryStore:
    def __init__(self) -> None:
        self._saved: dict[Whose, Saved] = {}
        self._saves = 0

    async def load(self, whose: Whose) -> Saved:
        return self._saved.get(whose, Saved())

    async def save(self, whose: Whose, replaced: str, packed: bytes) -> bool:
        if self._saved.get(whose, Saved()).revision != replaced:
            return False
        self._saves += 1
        self._saved[whose] = Saved(str(self._saves), packed)
        return True

    async def delete(self, whose: Whose) -> None:
        self._saved.pop(whose, None)

    async def forget_older_than(self, age: timedelta) -> None:
        """A test is young."""


def workspaces_in_memory() -> Workspaces:
    return Workspaces(MemoryStore())
