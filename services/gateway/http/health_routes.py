"""/healthz says that the process runs, /readyz that requests are welcome."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from fastapi import APIRouter
from starlette.responses import JSONResponse

from podium_kit.rpc.background import BackgroundTask

log = logging.getLogger(__name__)

Check = Callable[[], Awaitable[None]]
CHECK_TIMEOUT_S = 2.0


def health_router(
    checks: Mapping[str, Check], tasks: Sequence[BackgroundTask], draining: asyncio.Event
) -> APIRouter:
    """The routes; both are open, so they name dependencies and background tasks, nothing else."""
    router = APIRouter(include_in_schema=False)

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @router.get("/readyz")
    async def readyz() -> JSONResponse:
        if draining.is_set():
            return JSONResponse({"status": "draining"}, 503)
        answers = await asyncio.gather(*(passes(name, checks[name]) for name in checks))
        unwell = [name for name, well in zip(checks, answers, strict=True) if not well]
        status = {
            "status": "unwell" if unwell else "ready",
            "unwell": unwell,
            "failing_tasks": [task.name for task in tasks if task.is_failing],
        }
        return JSONResponse(status, 503 if unwell else 200)

    return router


async def passes(name: str, check: Check) -> bool:
    """Returns whether a dependency answers in time."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            await check()
    except Exception as error:  # noqa: BLE001  a check may fail in any way its library likes
        log.warning("dependency %s is unwell: %s", name, type(error).__name__)
        return False
    return True
