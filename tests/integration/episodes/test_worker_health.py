import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from embedded_servers import Database
from integration.episodes.platform_under_test import EpisodesPlatform, run_platform
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.embedded.temporal import EmbeddedTemporal

pytestmark = pytest.mark.chaos

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def states(platform: EpisodesPlatform, service: str) -> AsyncIterator[int]:
    target = f"127.0.0.1:{platform.worker_health_port}"
    async with grpc.aio.insecure_channel(target) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        async for update in HealthStub(channel).Watch(request, wait_for_ready=True):
            if update.status in (SERVING, NOT_SERVING):
                yield update.status


async def test_readiness_follows_each_dependency_and_liveness_none(
    database: Database,
    postgres_server: EmbeddedPostgres,
    tmp_path: Path,
) -> None:
    temporal = EmbeddedTemporal(tmp_path / "temporal", free_port())
    kafka = EmbeddedKafka(free_port(), log_path=tmp_path / "kafka.log")
    await asyncio.gather(temporal.start(), kafka.start())
    try:
        async with run_platform(await database("episodes"), temporal, kafka, tmp_path) as platform:
            readiness = states(platform, "readiness")
            assert await next_one(readiness) == SERVING
            for dependency in (kafka, temporal, postgres_server):
                await dependency.kill()
                assert await next_one(readiness) == NOT_SERVING, dependency
                assert await next_one(states(platform, "liveness")) == SERVING
                await dependency.start()
                assert await next_one(readiness) == SERVING, dependency
    finally:
        await asyncio.gather(temporal.stop(), kafka.stop())


async def next_one(updates: AsyncIterator[int]) -> int:
    async with asyncio.timeout(60):
        return await anext(updates)


async def test_a_stopping_worker_reports_it_before_it_drains(
    own_platform: EpisodesPlatform,
) -> None:
    readiness = states(own_platform, "readiness")
    assert await next_one(readiness) == SERVING
    assert own_platform.worker.pid
    os.kill(own_platform.worker.pid, signal.SIGTERM)
    assert await next_one(readiness) == NOT_SERVING
