"""Every secret whose master key is there is taken under the new one, whatever became of others."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from tool_adapters.secrets.envelope import seal
from tool_adapters.secrets.errors import NoMasterKey
from tool_adapters.secrets.models import Owner, Sealed
from tool_adapters.secrets.service import BATCH, Secrets

Place = tuple[Owner, str]


class Keys:
    """Master keys that write out whose they are, the last of which is current."""

    def __init__(self, *ids: str) -> None:
        self._ids = ids

    async def current_id(self) -> str:
        return self._ids[-1]

    async def wrap(self, key: bytes, context: bytes) -> tuple[str, bytes]:
        return self._ids[-1], key

    async def unwrap(self, key_id: str, wrapped: bytes, context: bytes) -> bytes:
        if key_id not in self._ids:
            raise NoMasterKey(f"the master key {key_id} is not in the file any more; add it again")
        return wrapped


@dataclass
class Table:
    """In memory, and of one tenant."""

    rows: dict[Place, Sealed] = field(default_factory=dict)

    async def under_others(
        self, key_id: str, after: Place, limit: int
    ) -> list[tuple[Owner, str, Sealed]]:
        found = sorted(self.rows.items(), key=lambda row: row[0][1])
        former = [(*place, sealed) for place, sealed in found if sealed.key_id != key_id]
        return [each for each in former if each[1] > after[1]][:limit]

    async def rewrap(self, owner: Owner, name: str, sealed: Sealed) -> None:
        self.rows[owner, name] = sealed


async def test_a_secret_whose_key_is_gone_keeps_no_other_under_its_former_one() -> None:
    acme, table = Owner("acme"), Table()
    for number in range(3 * BATCH):
        name = f"key-{number:03}"
        # More than a round of them are lost.
        keys = Keys("lost" if number < 2 * BATCH else "former")
        table.rows[acme, name] = await seal(keys, acme, name, "s3cr3t")
    known: Any = table
    with pytest.raises(NoMasterKey, match="the master key lost is not in the file"):
        await Secrets(known, Keys("former", "current")).rewrap()
    assert {sealed.key_id for sealed in table.rows.values()} == {"lost", "current"}
