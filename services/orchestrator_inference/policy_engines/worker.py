"""Wiring of the engine keeper."""

import asyncio
import logging
import signal

from orchestrator_inference.policy_engines.blueprint import EngineRules
from orchestrator_inference.policy_engines.config import Settings
from orchestrator_inference.policy_engines.keeper import EngineKeeper, Engines
from orchestrator_inference.policy_engines.kserve_api import KServeEngines
from podium_kit import telemetry
from podium_kit.policy_versions import VersionStore
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.health import HealthMonitor
from podium_kit.rpc.probes import answered_probes

log = logging.getLogger(__name__)


async def work(settings: Settings) -> None:
    """Works until SIGTERM."""
    stop_telemetry = telemetry.configure("policy-engines", settings.telemetry)
    stopped = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    rules = EngineRules(settings.kind, settings.claim, settings.component)
    engines = KServeEngines(settings.namespace, settings.blueprint, rules)
    keeper = EngineKeeper(
        VersionStore(settings.policy_store),
        engines,
        newest=settings.newest,
        retire_after_s=settings.retire_after_s,
    )
    try:
        monitor = HealthMonitor([], {"kubernetes": engines.check})
        async with answered_probes(settings.host, settings.health_port, monitor):
            keeping = asyncio.create_task(keep(keeper, engines, settings.check_s))
            await stopped.wait()
            keeping.cancel()
            await asyncio.wait([keeping], timeout=settings.graceful_shutdown_s)
    finally:
        stop_telemetry()


async def keep(keeper: EngineKeeper, engines: Engines, check_s: float) -> None:
    """Rounds until cancelled: at every change of an engine, and every `check_s` seconds."""
    while True:
        try:
            await keeper.reconcile()
            await engines.changed(check_s)
        except (DomainError, OSError) as error:
            log.warning("engines could not be looked at: %s", error)
            await asyncio.sleep(check_s)
