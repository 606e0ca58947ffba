from enum import StrEnum

import grpc

from podium_kit.rpc.health import BACKGROUND, OVERALL, is_serving

CHECK_TIMEOUT_S = 2.0


class ServiceState(StrEnum):
    SERVING = "serving"
    DEGRADED = "degraded"
    NOT_SERVING = "not_serving"
    UNREACHABLE = "unreachable"


async def state_of(channel: grpc.aio.Channel) -> ServiceState:
    """Returns what the health checks of the service behind a channel state."""
    try:
        if not await is_serving(channel, OVERALL, CHECK_TIMEOUT_S):
            return ServiceState.NOT_SERVING
        well = await is_serving(channel, BACKGROUND, CHECK_TIMEOUT_S)
    except grpc.aio.AioRpcError:
        return ServiceState.UNREACHABLE
    return ServiceState.SERVING if well else ServiceState.DEGRADED
