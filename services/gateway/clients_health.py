from enum import StrEnum

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

CHECK_TIMEOUT_S = 2.0


class ServiceState(StrEnum):
    SERVING = "serving"
    NOT_SERVING = "not_serving"
    UNREACHABLE = "unreachable"


async def state_of(channel: grpc.aio.Channel) -> ServiceState:
    """Returns what the health check of the service behind a channel states."""
    request = health_pb2.HealthCheckRequest()
    try:
        reply = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=CHECK_TIMEOUT_S)
    except grpc.aio.AioRpcError:
        return ServiceState.UNREACHABLE
    serving = reply.status == health_pb2.HealthCheckResponse.SERVING
    return ServiceState.SERVING if serving else ServiceState.NOT_SERVING
