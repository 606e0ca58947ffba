import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable

import grpc
import httpx

from podium_kit.embedded.ports import LOOPBACK, accepts_connections
from podium_kit.rpc.health import BACKGROUND, OVERALL, is_serving

# A busy machine is no dead process.
CHECK_TIMEOUT_S = 5.0
HTTP_PATHS = {"gateway": "/healthz", "vllm": "/health"}
# Servers with protocols of their own.
PLAIN_SERVERS = {"kafka", "temporal"}
NOT_OURS = {"vllm", *PLAIN_SERVERS}


async def answers(name: str, port: int | None) -> bool:
    """Returns whether it is ready for requests; what listens nowhere only has to run."""
    if port is None:
        return True
    if name in HTTP_PATHS:
        reply = await _http_reply(port, HTTP_PATHS[name])
        return reply is not None and reply.is_success
    if name in PLAIN_SERVERS:
        return accepts_connections(port)
    return bool(await _grpc_health(port, OVERALL))


async def background_works(name: str, port: int | None) -> bool:
    """Returns False if a background task of the process fails again and again."""
    if port is None or name in NOT_OURS:
        return True
    if name == "gateway":
        reply = await _http_reply(port, "/readyz")
        return reply is None or not reply.json().get("failing_tasks")
    return await _grpc_health(port, BACKGROUND) is not False


async def _http_reply(port: int, path: str) -> httpx.Response | None:
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=CHECK_TIMEOUT_S) as client:
            return await client.get(f"http://{LOOPBACK}:{port}{path}")
    except httpx.TransportError:
        return None


async def _grpc_health(port: int, name: str) -> bool | None:
    """Returns what a health check states; None without an answer."""
    async with grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel:
        try:
            return await is_serving(channel, name, CHECK_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return None


log = logging.getLogger(__name__)

INTERVAL_S = 0.2
# What dies once is back at once; what dies again and again does not take the machine with it.
PAUSE_S, PAUSE_MAX_S = 0.5, 30.0
# One that lived for so long has recovered from what killed it before.
STEADY_S = 20.0

Dead = Callable[[], Iterable[str]]
Revive = Callable[[str], Awaitable[None]]


class Supervisor:
    """A process that cannot be started is tried again; it ends neither the others nor us."""

    def __init__(self, dead: Dead, revive: Revive) -> None:
        self._dead = dead
        self._revive = revive
        self._reviving: dict[str, asyncio.Task[None]] = {}
        self._deaths: dict[str, tuple[int, float]] = {}

    async def run(self) -> None:
        """Runs until cancelled; a revival under way ends with it."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(INTERVAL_S)
                for name in self._dead():
                    running = self._reviving.get(name)
                    if running is None or running.done():
                        self._reviving[name] = group.create_task(self._again(name))

    async def _again(self, name: str) -> None:
        pause_s = self._pause_s(name)
        log.warning("%s died and is started again%s", name, f" in {pause_s:g} s" if pause_s else "")
        await asyncio.sleep(pause_s)
        try:
            await self._revive(name)
        except Exception as error:  # noqa: BLE001 whatever it is, the others have to be kept running
            log.warning("%s could not be started again, and is tried again: %s", name, error)

    def _pause_s(self, name: str) -> float:
        """Longer with each death that follows soon after the one before."""
        now = time.monotonic()
        deaths, last = self._deaths.get(name, (0, now))
        is_steady = now - last >= STEADY_S + pause_after(deaths)
        deaths = 1 if is_steady else deaths + 1
        self._deaths[name] = deaths, now
        return pause_after(deaths)


def pause_after(deaths: int) -> float:
    return 0.0 if deaths <= 1 else min(PAUSE_S * 2.0 ** min(deaths - 2, 16), PAUSE_MAX_S)
