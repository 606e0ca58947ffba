"""The id of a new episode: the caller's, the one its Idempotency-Key stands for, or a fresh one."""

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from starlette.datastructures import Headers
from uuid_utils import uuid7

from gateway.errors import InvalidEpisodeId, InvalidIdempotencyKey
from podium_kit.rpc.identity import current_identity

IDEMPOTENCY_KEY_CHARACTERS_MAX = 255


@dataclass(frozen=True)
class EpisodeId:
    """An id, and whether the caller can ask for it again."""

    value: str
    chosen_by_caller: bool


class IdempotencyStore(Protocol):
    """Remembers which episode a key stands for."""

    async def episode_for(self, tenant: str, key: str, proposed_id: str) -> str: ...


class EpisodeIds:
    """Names new episodes."""

    def __init__(self, store: IdempotencyStore) -> None:
        self._store = store

    async def choose(self, headers: Headers) -> EpisodeId:
        """The id for a request. Raises InvalidEpisodeId, InvalidIdempotencyKey."""
        if (given := headers.get("x-episode-id")) is not None:
            return EpisodeId(checked_episode_id(given), True)
        if (key := headers.get("idempotency-key")) is not None:
            return EpisodeId(await self._remembered(key), True)
        return EpisodeId(str(uuid7()), False)

    async def _remembered(self, key: str) -> str:
        if not 1 <= len(key) <= IDEMPOTENCY_KEY_CHARACTERS_MAX:
            raise InvalidIdempotencyKey(IDEMPOTENCY_KEY_CHARACTERS_MAX)
        return await self._store.episode_for(current_identity().tenant, key, str(uuid7()))


def checked_episode_id(given: str) -> str:
    """The id in its canonical form. Raises InvalidEpisodeId unless it is a UUIDv7."""
    try:
        parsed = UUID(given)
    except ValueError:
        raise InvalidEpisodeId(given) from None
    if parsed.version != 7:
        raise InvalidEpisodeId(given)
    return str(parsed)
