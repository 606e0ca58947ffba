from pathlib import Path

import grpc

from embedded_servers import Database
from gateway.clients import SERVICES
from gateway.clients_health import ServiceState, state_of
from gateway.platform_status import platform_status_router
from integration.gateway.gateway_under_test import run_gateway
from podium_kit.embedded.ports import free_port
from podium_kit.rpc.background import FAILURES_SHOWN, BackgroundTask
from podium_kit.rpc.health import HealthMonitor, answered_probes
from podium_kit.rpc.identity import Scope


async def well() -> None:
    """A check that passes, or a round that succeeds."""


async def down() -> None:
    raise OSError("the disk is full")


async def test_platform_admins_see_which_service_is_away(
    database: Database, tmp_path: Path
) -> None:
    away = {"cost_ledger_target": "127.0.0.1:1"}
    async with run_gateway(await database("gateway"), tmp_path, **away) as gateway:
        platform = await gateway.new_key("operators", [Scope.PLATFORM_ADMIN])
        reply = await gateway.get("/v1/platform/status", platform)
        assert reply.status_code == 200, reply.text
        states = {each["name"]: each["state"] for each in reply.json()["services"]}
        assert states.pop("cost-ledger") == "unreachable"
        assert set(states) == {"gateway", *SERVICES.values()} - {"cost-ledger"}
        assert set(states.values()) == {"serving"}
        assert (await gateway.get("/v1/platform/status")).status_code == 403


async def test_a_service_whose_background_task_fails_is_degraded() -> None:
    task = BackgroundTask("roll-up", well, interval_s=60)
    task.failures = FAILURES_SHOWN
    port = free_port()
    async with (
        answered_probes("127.0.0.1", port, HealthMonitor([], {}, [task])),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        while (state := await state_of(channel)) == ServiceState.UNREACHABLE:
            pass
        assert state == ServiceState.DEGRADED
        task.failures = 0
        while (state := await state_of(channel)) == ServiceState.DEGRADED:
            pass
        assert state == ServiceState.SERVING


async def test_the_gateways_own_state_follows_its_database_and_its_tasks() -> None:
    task = BackgroundTask("old-idempotency-keys", well, interval_s=60)

    async def own_state(database: object = well) -> str:
        [route] = platform_status_router({}, database, [task]).routes  # type: ignore[arg-type]
        [own] = (await route.endpoint()).services  # type: ignore[attr-defined]
        return f"{own.name} {own.state}"

    assert await own_state() == "gateway serving"
    task.failures = FAILURES_SHOWN
    assert await own_state() == "gateway degraded"
    assert await own_state(down) == "gateway not_serving"
