import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from podium_kit import telemetry
from podium_kit.rpc.background import BackgroundTask, background
from podium_kit.rpc.health import Check, HealthMonitor, answered_probes
from podium_kit.rpc.interceptors import GuardInterceptor
from podium_kit.rpc.settings import ServerSettings, TlsFiles
from podium_kit.rpc.shedding import SheddingInterceptor
from podium_kit.rpc.streams import ClosingInterceptor
from podium_kit.rpc.tls import server_credentials

log = logging.getLogger(__name__)

MESSAGE_BYTES_MAX = 64 * 1024 * 1024
SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Connections are renewed so that new pods get traffic after a scale-up.
    ("grpc.max_connection_age_ms", 300_000),
    ("grpc.max_connection_age_grace_ms", 600_000),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    # Two servers on one port would each get half of the calls.
    ("grpc.so_reuseport", 0),
)


@dataclass(frozen=True)
class Service:
    add_to_server: Callable[[Any, grpc.aio.Server], None]
    servicer: Any
    name: str


async def run_server(
    settings: ServerSettings,
    services: Sequence[Service],
    checks: Mapping[str, Check],
    tasks: Sequence[BackgroundTask] = (),
    on_drain: Callable[[], None] = lambda: None,
) -> None:
    """Serves until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopped.set)
    async with running_server(settings, services, checks, tasks, on_drain) as port:
        log.info("serving on port %d", port)
        await stopped.wait()


@asynccontextmanager
async def running_server(
    settings: ServerSettings,
    services: Sequence[Service],
    checks: Mapping[str, Check],
    tasks: Sequence[BackgroundTask] = (),
    on_drain: Callable[[], None] = lambda: None,
) -> AsyncIterator[int]:
    """A started server and the background tasks beside it; yields its port. Leaving drains it:
    `on_drain` is called before running calls get their grace."""
    guard = GuardInterceptor(settings.token_verifier(), settings.allowed_clients)
    shedding = SheddingInterceptor(settings.open_calls_max)
    server = grpc.aio.server(
        interceptors=[ClosingInterceptor(), *telemetry.server_interceptors(), shedding, guard],
        options=SERVER_OPTIONS,
    )
    monitor = HealthMonitor([service.name for service in services], checks, tasks)
    _register(server, services, monitor)
    port = _listen(server, f"{settings.host}:{settings.port}", settings.tls)
    async with background(tasks), answered_probes(settings.host, settings.health_port, monitor):
        await server.start()
        try:
            yield port
        finally:
            on_drain()
            await _drain(settings, server, monitor)


async def _drain(settings: ServerSettings, server: grpc.aio.Server, health: HealthMonitor) -> None:
    await health.stop_serving()
    # The mesh keeps sending for a few seconds after the pod says NOT_SERVING.
    await asyncio.sleep(settings.drain_wait_s)
    await server.stop(settings.drain_grace_s)


def _register(server: grpc.aio.Server, services: Sequence[Service], monitor: HealthMonitor) -> None:
    for service in services:
        service.add_to_server(service.servicer, server)
    health_pb2_grpc.add_HealthServicer_to_server(monitor.servicer, server)
    names = [service.name for service in services]
    reflection.enable_server_reflection(
        [*names, "grpc.health.v1.Health", reflection.SERVICE_NAME], server
    )


def _listen(server: grpc.aio.Server, address: str, tls: TlsFiles | None) -> int:
    if tls is None:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, server_credentials(tls))
