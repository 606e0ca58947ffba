import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from integration.episodes.platform_under_test import finished, run_platform, start
from openai_server import OpenAiServer, Reply
from orchestrator_inference.config import OrchestratorInferenceSettings
from orchestrator_inference.server import assembled
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.rpc.server import running_server
from podium_kit.wire import duration_to_proto

# Once it was given back: a worker's lease names its holder.
PAUSE = text(
    """
    SELECT extract(epoch FROM due_time - clock_timestamp()) FROM episode_queue
    WHERE episode_id = CAST(:id AS uuid) AND attempts = 1 AND holder = ''
    """
)

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub


async def test_a_turn_waits_as_long_as_the_engine_asks(
    database: Callable[[], Awaitable[str]],
    temporal: EmbeddedTemporal,
    kafka: EmbeddedKafka,
    tmp_path: Path,
) -> None:
    orchestrator = free_port()
    target = {"orchestrator_inference_target": f"127.0.0.1:{orchestrator}"}
    busy = [Reply("busy", status, {"retry-after": "3600"}) for status in (429, 503)]
    url = await database()
    episodes = create_async_engine(url)
    with OpenAiServer(busy) as engine:
        async with run_platform(url, temporal, kafka, tmp_path, target) as platform:
            settings = OrchestratorInferenceSettings(
                port=orchestrator,
                verify_keys_file=tmp_path / "verify.json",
                engine_base_url=engine.base_url,
                drain_grace_s=0,
            )
            async with (
                assembled(settings) as served,
                running_server(settings, *served),
                platform.client() as client,
            ):
                waited_s = [await first_wait_s(client, episodes) for _ in busy]
    await episodes.dispose()
    assert waited_s == [pytest.approx(3600, abs=60)] * 2
    assert len(engine.requests) == 2, "retried by something other than the queue"


async def first_wait_s(client: "EpisodeServiceAsyncStub", episodes: AsyncEngine) -> float:
    # No pause is longer than the episode may last.
    episode = await start(client, time_limit=duration_to_proto(7200))
    waited_s = await pause_s(episodes, episode.id)
    await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
    await finished(client, episode.id)
    return waited_s


async def pause_s(engine: AsyncEngine, episode_id: str) -> float:
    while True:
        async with engine.connect() as connection:
            found = (await connection.execute(PAUSE, {"id": episode_id})).scalar()
        if found is not None:
            return float(found)
        await asyncio.sleep(0.05)
