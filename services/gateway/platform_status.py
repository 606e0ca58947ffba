"""The state of the services behind the gateway, as each one's health check states it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from fastapi import APIRouter
from pydantic import BaseModel, Field

from gateway.clients_health import ServiceState
from gateway.http.health_routes import Check, passes
from gateway.scopes import needs
from podium_kit.rpc.background import BackgroundTask
from podium_kit.rpc.identity import Scope

StateCheck = Callable[[], Awaitable[ServiceState]]


class ServiceHealth(BaseModel):
    """A service, by the replica that answered."""

    name: str
    state: ServiceState = Field(
        description="degraded: one of its background tasks fails again and again; "
        "not_serving: it runs, and what it depends on does not answer"
    )
    latency_ms: float = Field(description="until its health check was answered, or given up")


class PlatformStatus(BaseModel):
    """The services of the platform."""

    services: list[ServiceHealth] = Field(description="the gateway, then the others")


def platform_status_router(
    services: Mapping[str, StateCheck], database: Check, tasks: Sequence[BackgroundTask]
) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["Platform"])

    async def own_state() -> ServiceState:
        if not await passes("postgres", database):
            return ServiceState.NOT_SERVING
        is_failing = any(task.is_failing for task in tasks)
        return ServiceState.DEGRADED if is_failing else ServiceState.SERVING

    checks = {"gateway": own_state, **services}

    @router.get("/platform/status", operation_id="GetPlatformStatus", **needs(Scope.PLATFORM_ADMIN))
    async def status() -> PlatformStatus:
        """Return whether each service answers, and has what it depends on."""
        found = await asyncio.gather(*(_health(name, check) for name, check in checks.items()))
        return PlatformStatus(services=found)

    return router


async def _health(name: str, check: StateCheck) -> ServiceHealth:
    begun = time.monotonic()
    state = await check()
    latency_ms = round(1000 * (time.monotonic() - begun), 1)
    return ServiceHealth(name=name, state=state, latency_ms=latency_ms)
