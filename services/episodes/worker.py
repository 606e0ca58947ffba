"""Wiring of the episode worker: workflows, activities, relay, reconciler."""

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from episodes.charges.service import Charges
from episodes.children.admission import AdmitChildActivity
from episodes.children.answers import ChildAnswers
from episodes.children.cut_off import CutOffChildren
from episodes.clients import Adapters, Ledger, Orchestrator, Registry, RegistryPolicies
from episodes.config import WorkerConfig
from episodes.model_catalogue import ModelCatalogue
from episodes.steps.log import StepLogs
from episodes.steps.settlements import Settlements
from episodes.steps.store import StepStore
from episodes.store import EpisodeStore
from episodes.store_engine import check, open_engine
from episodes.store_locks import Leadership
from episodes.stream.reconciler import Reconciler
from episodes.stream.relay import Relay
from episodes.stream.store_outbox import OutboxStore
from episodes.stream.topic_kafka import TopicReader
from episodes.temporal.client import check_temporal
from episodes.temporal.connection import TemporalConnection
from episodes.turns.decide import Decider
from episodes.turns.finish import FinishActivity
from episodes.turns.invoke import Invoker
from episodes.turns.judge import JudgeActivity
from episodes.turns.policy_checks import PolicyChecks
from episodes.turns.running_episode import RunningEpisodes
from episodes.turns.turn import TurnActivity
from episodes.turns.verifier_calls import VerifierCalls
from episodes.workflows.episode import EpisodeWorkflow
from episodes.workflows.starter import WorkflowStarter
from episodes.workflows.sweep import StarterSweep
from episodes.workflows.versioning import deployment_config
from podium_kit import telemetry
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.health import Check, HealthMonitor
from podium_kit.rpc.probes import answered_probes
from podium_kit.rpc.process import run
from podium_kit.rpc.settings import load_settings
from podium_kit.stream import BrokerCheck, Producer

# Any constants will do, as long as the holders of one key do the same work.
RELAY_LOCK, SWEEP_LOCK = 5_150_001, 5_150_002
# More workflow tasks at once than this trip the two-second deadlock detector when a
# restarted worker replays everything at the same time.
WORKFLOW_TASKS_MAX = 8
# How long the server waits for a dead worker's cache before it asks another.
STICKY_TIMEOUT = timedelta(seconds=1)
# How soon a cancel reaches a running activity.
HEARTBEAT_THROTTLE = timedelta(seconds=1)
CACHED_WORKFLOWS = 2000


async def work(config: WorkerConfig) -> None:
    """Works until SIGTERM."""
    stop_telemetry = telemetry.configure("episodes-worker", config.telemetry)
    stopped = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    engine = open_engine(config.database_url, pool_size=24)
    try:
        temporal = await TemporalConnection.open(
            config.temporal_target, config.temporal_namespace, config.temporal
        )
        async with _running(config, engine, temporal), _probes(config, engine, temporal):
            await stopped.wait()
    finally:
        await engine.dispose()
        stop_telemetry()


@asynccontextmanager
async def _running(
    config: WorkerConfig, engine: AsyncEngine, temporal: TemporalConnection
) -> AsyncIterator[None]:
    settlements = Settlements(StepStore(engine))
    producer = Producer(config.kafka)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(producer.close)
        for loop in _loops(config, engine, temporal, producer):
            await stack.enter_async_context(_background(loop))
        await stack.enter_async_context(_background(settlements.run()))
        worker = _worker(config, engine, temporal, settlements)
        await stack.enter_async_context(worker)
        temporal.follow(partial(setattr, worker, "client"))
        yield


@asynccontextmanager
async def _probes(
    config: WorkerConfig, engine: AsyncEngine, temporal: TemporalConnection
) -> AsyncIterator[None]:
    """Health that follows what the worker cannot work without; left first, before it drains."""
    broker = BrokerCheck(config.kafka)
    checks: dict[str, Check] = {
        "postgres": partial(check, engine),
        "temporal": lambda: check_temporal(temporal.client),
        "kafka": broker.check,
    }
    try:
        async with answered_probes(config.host, config.health_port, HealthMonitor([], checks)):
            yield
    finally:
        await broker.close()


def _worker(
    config: WorkerConfig,
    engine: AsyncEngine,
    temporal: TemporalConnection,
    settlements: Settlements,
) -> Worker:
    signer = config.signing_key.signer()
    orchestrator = Orchestrator(
        open_channel(config.orchestrator_inference_target, signer, tls=config.tls)
    )
    adapters = Adapters(open_channel(config.tool_adapters_target, signer, tls=config.tls))
    ledger = Ledger(open_channel(config.cost_ledger_target, signer, tls=config.tls))
    store = EpisodeStore(engine)
    episodes = RunningEpisodes(store)
    logs = StepLogs(StepStore(engine), settlements)
    charges = Charges(ledger, logs)
    models = ModelCatalogue(orchestrator)
    decider = Decider(orchestrator, models, charges, logs, config.prompt_tokens_max)
    registry = open_channel(config.tool_registry_target, signer, tls=config.tls)
    policies = PolicyChecks(RegistryPolicies(registry))
    children = ChildAnswers(store)
    invoker = Invoker(adapters, charges, logs, children)
    turn = TurnActivity(episodes, logs, decider, invoker, policies)
    finish = FinishActivity(
        episodes,
        logs,
        charges,
        adapters,
        OutboxStore(engine),
        settlements,
        CutOffChildren(logs, children),
    )
    calls = VerifierCalls(Registry(registry), adapters, charges, logs)
    judge = JudgeActivity(episodes, logs, calls)
    admission = AdmitChildActivity(episodes, logs, store, Registry(registry), models)
    return Worker(
        temporal.client,
        task_queue=config.task_queue,
        workflows=[EpisodeWorkflow],
        activities=[
            turn.take_turn,
            judge.judge_answer,
            finish.finish_episode,
            admission.admit_child,
        ],
        deployment_config=deployment_config(config.deployment_name, config.build_id),
        # The workflow imports no I/O; replay tests run under both runners.
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=CACHED_WORKFLOWS,
        max_concurrent_workflow_tasks=WORKFLOW_TASKS_MAX,
        max_concurrent_activities=config.max_concurrent_turns,
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=timedelta(seconds=config.graceful_shutdown_s),
    )


def _loops(
    config: WorkerConfig, engine: AsyncEngine, temporal: TemporalConnection, producer: Producer
) -> list[Coroutine[None, None, None]]:
    outbox = OutboxStore(engine)
    leadership = Leadership(engine, RELAY_LOCK)
    topic = TopicReader(config.kafka, config.trajectory_topic)
    relay = Relay(outbox, producer, leadership, config.trajectory_topic)
    reconciler = Reconciler(outbox, leadership, topic, config.reconcile_interval_s)
    sweep = StarterSweep(
        EpisodeStore(engine),
        WorkflowStarter(temporal, config.task_queue),
        Leadership(engine, SWEEP_LOCK),
    )
    return [relay.run(), reconciler.run(), sweep.run(), temporal.run()]


@asynccontextmanager
async def _background(loop: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(loop)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def main() -> None:
    """`python -m episodes.worker`."""
    config = load_settings(WorkerConfig)
    run(work(config))


if __name__ == "__main__":
    main()
