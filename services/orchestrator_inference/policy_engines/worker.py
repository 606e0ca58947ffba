import asyncio
import signal
from functools import partial

from orchestrator_inference.policy_engines.blueprint import EngineRules
from orchestrator_inference.policy_engines.config import PolicyEnginesSettings
from orchestrator_inference.policy_engines.keeper import EngineKeeper
from orchestrator_inference.policy_engines.kserve_api import KServeEngines
from podium_kit import telemetry
from podium_kit.policy_versions import VersionStore
from podium_kit.rpc.background import BackgroundTask, background
from podium_kit.rpc.health import HealthMonitor, answered_probes


async def work(settings: PolicyEnginesSettings) -> None:
    stop_telemetry = telemetry.configure("policy-engines", settings.telemetry)
    stopped = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    rules = EngineRules(settings.kind, settings.claim, settings.policy_store, settings.component)
    engines = KServeEngines(settings.namespace, settings.blueprint, rules)
    keeper = EngineKeeper(
        VersionStore(settings.policy_store),
        engines,
        newest=settings.newest,
        retire_after_s=settings.retire_after_s,
    )
    tasks = [BackgroundTask("engines", partial(keeper.keep, settings.check_s), interval_s=0)]
    monitor = HealthMonitor([], {"kubernetes": engines.check}, tasks)
    try:
        async with (
            answered_probes(settings.host, settings.health_port, monitor),
            background(tasks),
        ):
            await stopped.wait()
    finally:
        stop_telemetry()
