"""The checks of `podium status`, through real gRPC and HTTP servers."""

import asyncio

import pytest
import uvicorn
from fastapi import FastAPI

from gateway.http.health_routes import health_router
from podium_kit.embedded.ports import free_port
from podium_kit.rpc.background import FAILURES_SHOWN, BackgroundTask
from podium_kit.rpc.health import HealthMonitor, answered_probes
from podium_operations.local.supervision import answers, background_works


async def idle() -> None:
    """A round that succeeds."""


@pytest.mark.parametrize("failures", [0, FAILURES_SHOWN])
async def test_a_failing_background_task_is_noticed_and_the_service_still_answers(
    failures: int,
) -> None:
    task = BackgroundTask("roll-up", idle, interval_s=60)
    task.failures = failures
    port = free_port()
    async with answered_probes("127.0.0.1", port, HealthMonitor([], {}, [task])):
        while not await answers("cost_ledger", port):
            pass
        assert await background_works("cost_ledger", port) == (failures == 0)


@pytest.mark.parametrize("failures", [0, FAILURES_SHOWN])
async def test_a_failing_task_of_the_gateway_is_noticed_over_http(failures: int) -> None:
    task = BackgroundTask("old-idempotency-keys", idle, interval_s=60)
    task.failures = failures
    app = FastAPI()
    app.include_router(health_router({}, [task], asyncio.Event()))
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    try:
        while not await answers("gateway", port):
            pass
        assert await background_works("gateway", port) == (failures == 0)
    finally:
        server.should_exit = True
        await serving


async def test_servers_of_others_have_no_background_tasks() -> None:
    nowhere = free_port()
    for name in ("kafka", "temporal", "vllm"):
        assert await background_works(name, nowhere)
    assert await background_works("postgres", None)
