"""The id of a new episode: the caller's, the one its Idempotency-Key stands for, the one of the
same request when no one knows what became of it, or a fresh one."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from starlette.datastructures import Headers
from uuid_utils import uuid7

from gateway.errors import InvalidEpisodeId, InvalidIdempotencyKey, StartUnknown, UpstreamFault
from podium_kit.derived_ids import derived_uuid8
from podium_kit.rpc.errors import DeadlineExceeded, Unavailable
from podium_kit.rpc.identity import current_identity
from podium_kit.text import storable

IDEMPOTENCY_KEY_CHARACTERS_MAX = 255
# How long a request without a key is recognized after one whose fate is unknown.
RETRY_WINDOW = timedelta(minutes=10)
FATE_UNKNOWN = (Unavailable, DeadlineExceeded, UpstreamFault)


@dataclass(frozen=True)
class EpisodeId:
    """An id, and whether the caller can ask for it again."""

    value: str
    chosen_by_caller: bool

    def choice(self, index: int) -> "EpisodeId":
        if index == 0:
            return self
        return replace(self, value=derived_uuid8(self.value, f"{self.value}/choice/{index}"))


class IdempotencyStore(Protocol):
    async def episode_for(self, tenant: str, key: str, proposed_id: str) -> str: ...
    async def take(self, tenant: str, key: str, age: timedelta) -> str | None: ...


class EpisodeIds:
    def __init__(self, store: IdempotencyStore) -> None:
        self._store = store

    @asynccontextmanager
    async def starting(
        self, headers: Headers, body: bytes, given: str | None = None
    ) -> AsyncIterator[EpisodeId]:
        """The id of the episode that the block starts for a request; `given` is the body's.

        Raises InvalidEpisodeId, InvalidIdempotencyKey, StartUnknown.
        """
        async with self._starting(await self._chosen(headers, given), body) as episode:
            yield episode

    @asynccontextmanager
    async def starting_with(self, key: str | None, body: bytes) -> AsyncIterator[EpisodeId]:
        """The same for a request that names its idempotency key, if it has one, elsewhere."""
        chosen = None if key is None else EpisodeId(await self._remembered(key), True)
        async with self._starting(chosen, body) as episode:
            yield episode

    @asynccontextmanager
    async def _starting(self, chosen: EpisodeId | None, body: bytes) -> AsyncIterator[EpisodeId]:
        tenant, key = current_identity().tenant, _named("body", body)
        episode = chosen or EpisodeId(
            await self._store.take(tenant, key, RETRY_WINDOW) or str(uuid7()), False
        )
        try:
            yield episode
        except FATE_UNKNOWN as error:
            if not episode.chosen_by_caller:
                # Where the database is away as well, the answer still names the episode.
                with suppress(Unavailable):
                    await self._store.episode_for(tenant, key, episode.value)
            raise StartUnknown(episode.value) from error

    async def _chosen(self, headers: Headers, given: str | None) -> EpisodeId | None:
        named = given or headers.get("x-episode-id")
        if named is not None:
            return EpisodeId(checked_episode_id(named), True)
        if (key := headers.get("idempotency-key")) is not None:
            return EpisodeId(await self._remembered(key), True)
        return None

    async def _remembered(self, key: str) -> str:
        # A header holds no NUL; JSON of other protocols may.
        if not 1 <= len(key) <= IDEMPOTENCY_KEY_CHARACTERS_MAX or key != storable(key):
            raise InvalidIdempotencyKey(IDEMPOTENCY_KEY_CHARACTERS_MAX)
        identity = current_identity()
        named = _named("key", key.encode())
        return await self._store.episode_for(identity.tenant, named, str(uuid7()))


def _named(kind: str, content: bytes) -> str:
    """A name of the caller's own for a key that it gave, or for a request without one.

    Of lengths that state where each part ends, so that no key equals a name of another kind.
    """
    subject = current_identity().subject.encode()
    return hashlib.sha256(
        b"%s\n%d\n%s\n%s" % (kind.encode(), len(subject), subject, content)
    ).hexdigest()


def checked_episode_id(given: str) -> str:
    try:
        parsed = UUID(given)
    except ValueError:
        raise InvalidEpisodeId(given) from None
    if parsed.version != 7:
        raise InvalidEpisodeId(given)
    return str(parsed)
