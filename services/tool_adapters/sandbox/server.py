from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from podium.adapters.v1.sandbox_service_pb2_grpc import add_SandboxServiceServicer_to_server
from podium_kit import telemetry
from podium_kit.rpc.health import Check
from podium_kit.rpc.server import Service, run_server
from tool_adapters.sandbox.config import SandboxSettings
from tool_adapters.sandbox.local_runner import LocalRunner
from tool_adapters.sandbox.servicer import SandboxServicer


async def serve(settings: SandboxSettings) -> None:
    """Raises IsolationUnavailable before it serves."""
    stop_telemetry = telemetry.configure("sandbox", settings.telemetry)
    try:
        async with assembled(settings) as served:
            await run_server(settings, *served)
    finally:
        stop_telemetry()


@asynccontextmanager
async def assembled(
    settings: SandboxSettings,
) -> AsyncIterator[tuple[Sequence[Service], dict[str, Check]]]:
    runner = LocalRunner(settings.warm_sandboxes)
    try:
        await runner.require_isolation()
        runner.warm_up()
        service = Service(
            add_SandboxServiceServicer_to_server,
            SandboxServicer(runner),
            "podium.adapters.v1.SandboxService",
        )
        yield [service], {}
    finally:
        await runner.close()
