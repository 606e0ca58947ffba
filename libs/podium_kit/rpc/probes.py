"""Health in plaintext on a port of its own: the kubelet's gRPC probe speaks no TLS."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import grpc
from grpc_health.v1 import health_pb2_grpc

from podium_kit.rpc.health import HealthMonitor


@asynccontextmanager
async def answered_probes(
    host: str, port: int | None, monitor: HealthMonitor
) -> AsyncIterator[None]:
    """Follows the checks and, with a port, answers probes; after leaving it answers none."""
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    if port is not None:
        health_pb2_grpc.add_HealthServicer_to_server(monitor.servicer, server)
        server.add_insecure_port(f"{host}:{port}")
        await server.start()
    watching = asyncio.create_task(monitor.run())
    try:
        yield
    finally:
        await monitor.stop_serving()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await server.stop(0)
