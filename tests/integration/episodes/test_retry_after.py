"""What a model engine says about when to come back decides when Temporal tries the turn again."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from temporalio.client import Client

from episodes.keys import workflow_id
from integration.episodes.platform_under_test import finished, run_platform, start
from openai_server import OpenAiServer, Reply
from orchestrator_inference.config import Settings
from orchestrator_inference.server import assembled
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.rpc.server import running_server

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
    with OpenAiServer(busy) as engine:
        async with run_platform(await database(), temporal, kafka, tmp_path, target) as platform:
            settings = Settings(
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
                waited_s = [await first_wait_s(client, temporal) for _ in busy]
    assert waited_s == [pytest.approx(3600, abs=1)] * 2
    assert len(engine.requests) == 2, "retried by something other than Temporal"


async def first_wait_s(client: "EpisodeServiceAsyncStub", temporal: EmbeddedTemporal) -> float:
    """How long an episode's first turn waits for its second attempt; the episode is cancelled."""
    episode = await start(client)
    waited_s = await retry_delay_s(temporal, episode.id)
    await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
    await finished(client, episode.id)
    return waited_s


async def retry_delay_s(temporal: EmbeddedTemporal, episode_id: str) -> float:
    """Seconds between the failed attempt of the turn and the next one, as Temporal planned it."""
    client = await Client.connect(temporal.target)
    while True:
        described = await client.get_workflow_handle(workflow_id(episode_id)).describe()
        for pending in described.raw_description.pending_activities:
            if pending.HasField("next_attempt_schedule_time"):
                next_time = pending.next_attempt_schedule_time.ToNanoseconds()
                return (next_time - pending.last_attempt_complete_time.ToNanoseconds()) / 1e9
