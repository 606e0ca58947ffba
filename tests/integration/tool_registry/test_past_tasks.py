import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from callers import make_key_pair, write_verify_keys
from embedded_servers import Database
from integration.tool_registry.running_registry import RunningRegistry, running_registry
from integration.tool_registry.test_ranking import offered, registered
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import episode_service_pb2_grpc as rpc
from podium_kit.rpc.identity import current_identity
from podium_kit.rpc.server import Service, running_server
from podium_kit.rpc.settings import ServerSettings

PAST = "Who has the keys of the garage?"
TASK = "Who has the keys of the boathouse?"


def returned(tool: str, problem: str = "") -> episode_pb2.EpisodeEvent:
    event = episode_pb2.EpisodeEvent()
    event.tool_returned.observation.call.tool_name = tool
    if problem:
        event.tool_returned.observation.failure.message = problem
    return event


def judged(score: float) -> episode_pb2.EpisodeEvent:
    event = episode_pb2.EpisodeEvent()
    event.judged.score = score
    return event


class Episodes(rpc.EpisodeServiceServicer):
    def __init__(self) -> None:
        self.events: dict[str, Sequence[episode_pb2.EpisodeEvent]] = {}
        self.watched: list[str] = []

    async def ListEpisodes(self, request: Any, context: Any) -> pb.ListEpisodesResponse:
        found = self.events if current_identity().tenant == "acme" else {}
        spec = episode_pb2.EpisodeSpec(task=PAST)
        return pb.ListEpisodesResponse(
            episodes=[
                episode_pb2.Episode(
                    id=each,
                    spec=spec,
                    stop_reason=episode_pb2.STOP_REASON_ANSWERED,
                    tool_call_count=1,
                )
                for each in found
            ]
        )

    async def WatchEpisode(
        self, request: Any, context: Any
    ) -> AsyncIterator[pb.WatchEpisodeResponse]:
        self.watched.append(request.episode_id)
        for event in self.events[request.episode_id]:
            yield pb.WatchEpisodeResponse(event=event)


async def once_read(registry: RunningRegistry, episodes: Episodes, count: int) -> list[str]:
    ada = await registered(registry)
    async with asyncio.timeout(60):
        while len(set(episodes.watched)) < count:
            await offered(ada, TASK, 1)
            await asyncio.sleep(0.01)
    for _ in range(20):
        found = await offered(ada, TASK, 1)
        await asyncio.sleep(0.01)
    return found


@pytest.mark.parametrize(
    ("events", "learnt"),
    [
        ([returned("stock_quote")], True),
        ([returned("stock_quote"), judged(1.0)], True),
        ([returned("stock_quote"), judged(0.0)], False),
        ([returned("stock_quote", "no such share")], False),
    ],
    ids=["answered", "right", "wrong", "failed"],
)
async def test_a_tool_that_answered_comes_first_for_tasks_alike(
    database: Database, tmp_path: Path, events: list[episode_pb2.EpisodeEvent], learnt: bool
) -> None:
    keys = make_key_pair()
    episodes = Episodes()  # type: ignore[abstract]  # two calls are made
    service = Service(
        rpc.add_EpisodeServiceServicer_to_server, episodes, "podium.episodes.v1.EpisodeService"
    )
    keys_file = write_verify_keys(tmp_path / "keys.json", [keys])
    settings = ServerSettings(port=0, verify_keys_file=keys_file, drain_grace_s=0)
    async with (
        running_server(settings, [service], {}) as port,
        running_registry(
            await database("tool_registry"),
            tmp_path,
            keys=keys,
            episodes_target=f"127.0.0.1:{port}",
            past_tasks_cache_s=0,
        ) as registry,
    ):
        assert "stock_quote" not in await offered(await registered(registry), TASK, 1)
        episodes.events["e1"] = events
        assert ("stock_quote" in await once_read(registry, episodes, 1)) == learnt
        # Episodes of others teach nothing.
        assert "stock_quote" not in await offered(await registered(registry, "bolt"), TASK, 1)
