"""grpc.health.v1 that follows the dependencies: SERVING only while they answer."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer

from podium_kit.rpc.background import BackgroundTask
from podium_kit.rpc.errors import message_of

log = logging.getLogger(__name__)

Check = Callable[[], Awaitable[None]]
CHECK_INTERVAL_S = 2.0
CHECK_TIMEOUT_S = 2.0
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
OVERALL = ""
BACKGROUND = "background"


class HealthMonitor:
    """Runs the readiness checks again and again and publishes what they say.

    "" and the service names and "readiness" follow the checks; "liveness" says
    only that the process runs, so that a lost database does not restart pods;
    "background/<name>" follows a background task, "background" all of them.
    """

    def __init__(
        self,
        service_names: Sequence[str],
        checks: Mapping[str, Check],
        tasks: Sequence[BackgroundTask] = (),
    ) -> None:
        self.servicer = HealthServicer()
        self._names = (OVERALL, "readiness", *service_names)
        self._checks = checks
        self._tasks = tasks
        self._unwell: set[str] | None = None

    async def run(self) -> None:
        await self.servicer.set("liveness", SERVING)
        while True:
            await self._publish_tasks()
            await self._publish({name for name in self._checks if not await self._passes(name)})
            await asyncio.sleep(CHECK_INTERVAL_S)

    async def stop_serving(self) -> None:
        """Tells load balancers to send nothing new."""
        await self.servicer.enter_graceful_shutdown()

    async def _passes(self, name: str) -> bool:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                await self._checks[name]()
        except Exception as error:  # noqa: BLE001  a check may fail in any way its library likes
            if self._unwell is None or name not in self._unwell:
                log.warning("dependency %s is unwell: %s", name, message_of(error))
            return False
        return True

    async def _publish_tasks(self) -> None:
        failing = {task.name for task in self._tasks if task.is_failing}
        await self.servicer.set(BACKGROUND, NOT_SERVING if failing else SERVING)
        for task in self._tasks:
            status = NOT_SERVING if task.name in failing else SERVING
            await self.servicer.set(f"{BACKGROUND}/{task.name}", status)

    async def _publish(self, unwell: set[str]) -> None:
        if unwell == self._unwell:
            return
        self._unwell = unwell
        for name in self._names:
            await self.servicer.set(name, NOT_SERVING if unwell else SERVING)


async def is_serving(channel: grpc.aio.Channel, name: str, timeout_s: float) -> bool:
    """Returns what the health check of a service states. Raises AioRpcError without an answer."""
    request = health_pb2.HealthCheckRequest(service=name)
    reply = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=timeout_s)
    return bool(reply.status == SERVING)


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
