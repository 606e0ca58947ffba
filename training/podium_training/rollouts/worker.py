"""The process of a worker without a terminal, as a pod runs it."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from pydantic import Field, SecretStr
from temporalio.client import Client

from episodes.workflows.connection import check_temporal
from podium_kit import telemetry
from podium_kit.client.gateway import Gateway
from podium_kit.rpc.health import HealthMonitor, answered_probes
from podium_kit.rpc.settings import TlsFiles
from podium_kit.telemetry import TelemetrySettings
from podium_training.rollouts.settings import RolloutSettings
from podium_training.rollouts.submission import open_temporal

Work = Callable[[Client, str, Gateway], Coroutine[Any, Any, None]]


class WorkerSettings(RolloutSettings):
    """Settings of the worker without a terminal, from the environment."""

    temporal_target: str = Field(min_length=1, description="host:port of the frontend")
    gateway_target: str = Field(min_length=1, description="URL of the gateway")
    api_key: SecretStr = Field(description="key of the tenant whose episodes they are")
    host: str = Field("127.0.0.1", description="address the probes' port listens on")
    health_port: int | None = Field(None, description="plaintext gRPC port for probes")
    graceful_shutdown_s: float = Field(5.0, gt=0, description="seconds a group gets to end")
    tls: TlsFiles | None = Field(None, description="its authority signs the gateway's certificate")
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)


async def serve(settings: WorkerSettings, work: Work) -> None:
    """Takes runs from the queue until SIGTERM; another worker continues with what it leaves."""
    stop_telemetry = telemetry.configure("rollout-worker", settings.telemetry)
    stopped = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    try:
        client = await open_temporal(settings, settings.temporal_target)
        monitor = HealthMonitor([], {"temporal": partial(check_temporal, client)})
        async with (
            Gateway(
                settings.gateway_target,
                settings.api_key.get_secret_value(),
                settings.tls.authority if settings.tls else None,
            ) as gateway,
            answered_probes(settings.host, settings.health_port, monitor),
        ):
            working = asyncio.create_task(work(client, settings.task_queue, gateway))
            stopping = asyncio.create_task(stopped.wait())
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                # It never ends by itself but by an error, which ends the process, too.
                working.result()
            working.cancel()
            await asyncio.wait([working], timeout=settings.graceful_shutdown_s)
    finally:
        stop_telemetry()
