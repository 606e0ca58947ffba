import re
from dataclasses import dataclass
from typing import Protocol

from tool_adapters.secrets.envelope import MasterKeys, opened, rewrapped, seal
from tool_adapters.secrets.errors import NoMasterKey, SecretNotFound, WeakSecret
from tool_adapters.secrets.models import NewSecret, Owner, Sealed, SecretInfo

CHARACTERS_MIN = 8
DISTINCT_MIN = 5
# From this length on also a text of one kind of characters is rare enough.
CHARACTERS_OF_RARE_TEXT = 16
_ONE_WORD = re.compile(r"[^A-Za-z]*(?:[a-z]+|[A-Z]+|[A-Z][a-z]+)?[^A-Za-z]*")
BATCH = 100


def require_strong(value: str) -> None:
    value = value.strip()
    if len(value) < CHARACTERS_MIN:
        raise WeakSecret(f"it has fewer than {CHARACTERS_MIN} characters")
    if len(set(value.lower())) < DISTINCT_MIN:
        raise WeakSecret(f"it has fewer than {DISTINCT_MIN} different characters")
    if len(value) < CHARACTERS_OF_RARE_TEXT and _ONE_WORD.fullmatch(value):
        raise WeakSecret("it is a single word or number")


# Before every secret: names are not empty.
FIRST = (Owner(""), "")


class SecretsTable(Protocol):
    async def put(self, secret: NewSecret, sealed: Sealed) -> SecretInfo: ...
    async def list_of(self, owner: Owner, after: str, limit: int) -> list[SecretInfo]: ...
    async def delete(self, owner: Owner, name: str) -> bool: ...
    async def find(self, owner: Owner, name: str) -> tuple[SecretInfo, Sealed] | None: ...
    async def under_others(
        self, key_id: str, after: tuple[Owner, str], limit: int
    ) -> list[tuple[Owner, str, Sealed]]: ...
    async def rewrap(self, owner: Owner, name: str, sealed: Sealed) -> None: ...


@dataclass(frozen=True)
class Secrets:
    """The secrets of all tenants; callers check permissions."""

    table: SecretsTable
    keys: MasterKeys

    async def put(self, secret: NewSecret) -> SecretInfo:
        require_strong(secret.value)
        sealed = await seal(self.keys, secret.owner, secret.name, secret.value)
        return await self.table.put(secret, sealed)

    async def list_of(self, owner: Owner, after: str, limit: int) -> list[SecretInfo]:
        return await self.table.list_of(owner, after, limit)

    async def delete(self, owner: Owner, name: str) -> None:
        if not await self.table.delete(owner, name):
            raise SecretNotFound(name[:100])

    async def value(self, owner: Owner, name: str) -> tuple[SecretInfo, str] | None:
        """The secret and its value; None when there is none. Raises NoMasterKey."""
        found = await self.table.find(owner, name)
        if found is None:
            return None
        info, sealed = found
        return info, await opened(self.keys, owner, name, sealed)

    async def rewrap(self) -> None:
        """Takes every secret under the current master key, so that former ones can be removed.

        Raises NoMasterKey for one whose own is gone, after all the others.
        """
        if not await self.table.under_others("", FIRST, 1):
            return
        current, after = await self.keys.current_id(), FIRST
        lost: NoMasterKey | None = None
        while former := await self.table.under_others(current, after, BATCH):
            for owner, name, sealed in former:
                after = owner, name
                try:
                    new = await rewrapped(self.keys, owner, name, sealed)
                except NoMasterKey as error:
                    lost = error
                else:
                    await self.table.rewrap(owner, name, new)
        if lost is not None:
            raise lost
