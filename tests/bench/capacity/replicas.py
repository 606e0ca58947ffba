import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

from bench.capacity.quotas import quota
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_operations.local.platform import LocalPlatform
from podium_operations.local.services import LOOPBACK, ServiceProcess, service_processes
from podium_operations.local.supervision import answers

START_TIMEOUT_S = 120.0
WORKER, LEDGER = "episodes_worker", "cost_ledger"
PORT_SETTINGS = {WORKER: "EPISODES_WORKER_HEALTH_PORT", LEDGER: "COST_LEDGER_PORT"}
WORKERS_OF_LEDGERS = 8


@asynccontextmanager
async def workers(
    platform: LocalPlatform, count: int, cores: float, places: int
) -> AsyncIterator[list[ManagedProcess]]:
    """Workers with `cores` each that take at most `places` episodes at once together."""
    limited = service_with(
        platform, WORKER, EPISODES_WORKER_MAX_CONCURRENT_TURNS=str(places // count)
    )
    async with (
        _in_place_of_the_worker(platform),
        running(platform, on_free_ports(limited, count), cores) as processes,
    ):
        yield processes


@asynccontextmanager
async def ledgers(
    platform: LocalPlatform, count: int, cores: float, places: int
) -> AsyncIterator[list[ManagedProcess]]:
    """Ledgers with `cores` each, and workers that balance their calls over them.

    A worker asks the ledger once at a time, with all that its episodes want, so there have to be
    as many workers as ledgers at least.
    """
    made = on_free_ports(service_with(platform, LEDGER), count)
    worker = service_with(
        platform,
        WORKER,
        EPISODES_WORKER_COST_LEDGER_TARGET="ipv4:" + ",".join(f"{LOOPBACK}:{e.port}" for e in made),
        EPISODES_WORKER_MAX_CONCURRENT_TURNS=str(places // WORKERS_OF_LEDGERS),
    )
    async with (
        running(platform, made, cores) as processes,
        _in_place_of_the_worker(platform),
        running(platform, on_free_ports(worker, WORKERS_OF_LEDGERS), None),
    ):
        yield processes


def on_free_ports(service: ServiceProcess, count: int) -> list[ServiceProcess]:
    """Returns replicas of a service that can run beside it."""
    setting = PORT_SETTINGS[service.name]
    return [
        replace(service, environment=service.environment | {setting: str(port)}, port=port)
        for port in [free_port() for _ in range(count)]
    ]


@asynccontextmanager
async def _in_place_of_the_worker(platform: LocalPlatform) -> AsyncIterator[None]:
    own = platform.processes[WORKER]
    await own.terminate()
    try:
        yield
    finally:
        own.start()


@asynccontextmanager
async def running(
    platform: LocalPlatform, services: list[ServiceProcess], cores: float | None
) -> AsyncIterator[list[ManagedProcess]]:
    async with AsyncExitStack() as stack:
        processes = []
        for service in services:
            process = platform.process_of(service)
            stack.push_async_callback(process.terminate)
            process.start()
            processes.append(process)
        await asyncio.gather(
            *(
                process.wait_ready(partial(answers, service.name, service.port), START_TIMEOUT_S)
                for process, service in zip(processes, services, strict=True)
            )
        )
        # A start takes seconds of a whole core; what is measured comes after it.
        await asyncio.sleep(3)
        for process in processes:
            if cores is not None and process.pid:
                stack.enter_context(quota(f"podium-bench-{process.pid}", process.pid, cores))
        yield processes


def service_with(platform: LocalPlatform, name: str, **settings: str) -> ServiceProcess:
    if platform.around is None:
        raise RuntimeError("the platform is not up")
    service = next(each for each in service_processes(platform.around) if each.name == name)
    return replace(service, environment=service.environment | settings)
