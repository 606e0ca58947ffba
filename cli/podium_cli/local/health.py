"""Whether a process of the platform answers on its port."""

import grpc
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

from podium_kit.embedded.ports import LOOPBACK, accepts_connections

# A busy machine is no dead process.
CHECK_TIMEOUT_S = 5.0
HTTP_PATHS = {"gateway": "/healthz", "vllm": "/health"}
# Servers with protocols of their own.
PLAIN_SERVERS = {"kafka", "temporal"}


async def answers(name: str, port: int | None) -> bool:
    """Whether it is ready for requests; what listens nowhere only has to run."""
    if port is None:
        return True
    if name in HTTP_PATHS:
        return await _http_ready(port, HTTP_PATHS[name])
    if name in PLAIN_SERVERS:
        return accepts_connections(port)
    return await _grpc_serving(port)


async def _http_ready(port: int, path: str) -> bool:
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=CHECK_TIMEOUT_S) as client:
            return (await client.get(f"http://{LOOPBACK}:{port}{path}")).is_success
    except httpx.TransportError:
        return False


async def _grpc_serving(port: int) -> bool:
    async with grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            reply = await stub.Check(health_pb2.HealthCheckRequest(), timeout=CHECK_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return False
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)
