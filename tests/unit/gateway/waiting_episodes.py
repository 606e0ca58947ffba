import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from gateway.chat.catalogue import ChatModels
from gateway.chat.starting import EpisodeStarter
from gateway.episode_ids import EpisodeIds
from gateway.models import ListOrder, Outcome, ProgressNote, ToolModels, ToolResults

UNUSED: Any = None


class WaitingEpisodes:
    def __init__(self) -> None:
        self.started: list[str] = []
        self.cancelled: list[str] = []
        self.followed = asyncio.Event()

    async def start(self, episode_id: str, order: ListOrder) -> None:
        self.started.append(episode_id)

    async def count_tokens(self, order: ListOrder) -> int:
        return 0

    async def answer(self, results: ToolResults) -> None: ...

    async def events(
        self, episode_id: str, answered_turn: int = 0, **_: bool
    ) -> AsyncIterator[ProgressNote | Outcome]:
        self.followed.set()
        await asyncio.Event().wait()
        yield ProgressNote(0, "", {})

    async def cancel(self, episode_id: str, reason: str) -> None:
        # As a call of another service, it takes a while.
        await asyncio.sleep(0)
        self.cancelled.append(episode_id)


class _Names:
    async def models(self) -> list[Any]:
        return []

    async def policy_names(self) -> list[str]:
        return []

    async def tools(self) -> list[ToolModels]:
        return []


class _Keys:
    async def episode_for(self, tenant: str, key: str, proposed_id: str) -> str:
        return proposed_id

    async def take(self, tenant: str, key: str, age: timedelta) -> str | None:
        return None


def make_starter(episodes: WaitingEpisodes, *, cancel_on_disconnect: bool = True) -> EpisodeStarter:
    return EpisodeStarter(
        catalogue=ChatModels(_Names(), cache_s=60),
        episodes=episodes,
        direct_calls=UNUSED,
        episode_ids=EpisodeIds(_Keys()),
        wait_s=3_600,
        keepalive_s=3_600,
        cancel_on_disconnect=cancel_on_disconnect,
    )
