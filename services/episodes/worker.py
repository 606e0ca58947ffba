import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from episodes.admission.checks import ToolOffers
from episodes.admission.children import AdmitChildActivity
from episodes.admission.live_traffic import POLL_INTERVAL_S as LIVE_INTERVAL_S
from episodes.admission.live_traffic import LiveEvaluations
from episodes.attachments.store import AttachmentStore
from episodes.clients import (
    Adapters,
    Ledger,
    OrchestratorClient,
    OrchestratorModels,
    RegistryClient,
    RegistryPolicies,
)
from episodes.competence.service import CompetenceRecords
from episodes.competence.store import CompetenceStore
from episodes.config import WorkerConfig
from episodes.direct_calls.executor import CALL_QUEUE, DirectCallMaker, QueuedCalls
from episodes.direct_calls.store import DirectCallStore
from episodes.episodes.store_retention import INTERVAL_S as RETENTION_INTERVAL_S
from episodes.episodes.store_retention import RetentionStore
from episodes.evaluations.store_live import LiveStore
from episodes.execution.call_tools import ToolCallInvoker
from episodes.execution.children import ChildAnswers, CutOffChildren
from episodes.execution.decide import Decider
from episodes.execution.executor import EpisodeExecutor
from episodes.execution.finish import CutOffCalls, EpisodeFinisher
from episodes.execution.local_tools import ClientCalls, ToolFinder
from episodes.execution.policy_checks import PolicyChecks
from episodes.execution.registry_answers import CatalogueFollower
from episodes.execution.replays import Replays
from episodes.execution.turn import TurnRunner
from episodes.execution.verify import AnswerJudge, VerifierCalls
from episodes.publication.reconciler import Reconciler
from episodes.publication.relay import SPACING_S, Relay
from episodes.publication.store_outbox import CHANNEL as OUTBOX_CHANNEL
from episodes.publication.store_outbox import OutboxStore
from episodes.publication.topic_kafka import TopicReader
from episodes.queue.lease_worker import (
    ORPHANS_INTERVAL_S,
    PRESENCE_INTERVAL_S,
    RENEW_INTERVAL_S,
    LeaseWorker,
)
from episodes.queue.leased_episodes import Handover, LeasedEpisodes
from episodes.queue.store import EPISODE_QUEUE, EpisodeQueue, WorkQueue
from episodes.spending.holds import Charges
from episodes.step_log.answer_parts import WrittenParts
from episodes.step_log.log import StepLogs
from episodes.step_log.running_episode import RunningEpisodes
from episodes.step_log.settlements import Settlements
from episodes.step_log.store import StepStore
from episodes.step_log.store_client_results import ClientResultStore
from episodes.step_log.store_notifications import AnswerPartNotifier
from episodes.store import EpisodeStore
from episodes.tenant_events.store import TenantEventStore
from episodes.webhooks.models import EventType
from episodes.webhooks.polled_events import INTERVAL_S as EVENTS_INTERVAL_S
from episodes.webhooks.polled_events import BudgetAlerts, Promotions
from episodes.webhooks.sender import FORGET_INTERVAL_S as WEBHOOK_FORGET_INTERVAL_S
from episodes.webhooks.sender import POLL_INTERVAL_S as WEBHOOK_INTERVAL_S
from episodes.webhooks.sender import WebhookSender
from episodes.webhooks.store import PromotionStore, WebhookStore
from episodes.workflows.activities import EpisodeActivities
from episodes.workflows.connection import RENEWAL_INTERVAL_S, TemporalConnection, check_temporal
from episodes.workflows.episode_workflow import EpisodeWorkflow
from episodes.workflows.reconciler import WorkflowReconciler
from episodes.workflows.starter import WorkflowStarter
from episodes.workflows.versioning import INTERVAL_S as VERSION_INTERVAL_S
from episodes.workflows.versioning import CurrentVersion, deployment_config
from podium_kit import telemetry
from podium_kit.postgres.engine import check, open_engine
from podium_kit.postgres.leadership import Leadership
from podium_kit.postgres.migrations import upgrade
from podium_kit.postgres.notifications import CHECK_INTERVAL_S, Listener, Notifications
from podium_kit.rpc.background import BackgroundTask, background
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.health import Check, HealthMonitor, answered_probes
from podium_kit.rpc.process import run
from podium_kit.rpc.settings import load_settings
from podium_kit.stream.clients import BrokerCheck, Producer

MIGRATIONS = Path(__file__).parent / "migrations"
# Any constants will do, as long as the holders of one key do the same work.
RELAY_LOCK, SWEEP_LOCK, WEBHOOK_LOCK = 5_150_001, 5_150_002, 5_150_003
# More workflow tasks at once than this trip the two-second deadlock detector when a
# restarted worker replays everything at the same time.
WORKFLOW_TASKS_MAX = 8
# How long the server waits for a dead worker's cache before it asks another.
STICKY_TIMEOUT = timedelta(seconds=1)
# How soon a cancel reaches a running activity. Each beat costs the server two transitions.
HEARTBEAT_THROTTLE = timedelta(seconds=1.5)
CACHED_WORKFLOWS = 2000
FORGETTING_INTERVAL_S = 3_600.0
EVENTS_FORGET_INTERVAL_S = 600.0


async def work(config: WorkerConfig) -> None:
    stop_telemetry = telemetry.configure("episodes-worker", config.telemetry)
    stopped = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    # Of a new version it may start first: the first one migrates.
    await upgrade(config.database_url, MIGRATIONS)
    engine = open_engine(config.database_url, pool_size=24)
    try:
        temporal = await TemporalConnection.open(
            config.temporal_target, config.temporal_namespace, config.temporal
        )
        settlements = Settlements(StepStore(engine))
        offers = _offers(config, engine)
        maker = _direct_call_maker(config, engine)
        answers = WrittenParts(AnswerPartNotifier(engine))
        executor = executor_of(config, engine, settlements, answers)
        starter = WorkflowStarter(temporal, config.task_queue, config.temporal_timeout_s)
        holder, max_concurrency = uuid.uuid4().hex, config.max_concurrent_turns
        leases = WorkQueue(engine, EPISODE_QUEUE, holder)
        queued = LeasedEpisodes(
            executor,
            Handover(EpisodeQueue(engine), starter),
            leases,
            drains=stopped.is_set,
            long_after_s=config.long_after_s,
            long_turns=config.long_turns,
        )
        version = CurrentVersion(temporal, config.deployment_name, config.build_id)
        calls = WorkQueue(engine, CALL_QUEUE, holder)
        runners: list[LeaseWorker[Any]] = [
            LeaseWorker(leases, queued, max_concurrency, lambda: version.is_current),
            LeaseWorker(calls, QueuedCalls(calls, maker), max_concurrency),
        ]
        relay = Relay(OutboxStore(engine), Producer(config.kafka), config.trajectory_topic)
        async with (
            _tasks(
                config,
                engine,
                version,
                settlements,
                starter,
                relay=relay,
                answers=answers,
                offers=offers,
                policies=executor.turns.policies,
            ) as tasks,
            _leases(engine, holder, runners, relay) as leasing,
            _worker(config, engine, temporal, executor, offers) as worker,
            _probes(config, engine, temporal, [*tasks, *leasing]),
        ):
            temporal.follow(partial(setattr, worker, "client"))
            await stopped.wait()
            for runner in runners:
                runner.drain(config.graceful_shutdown_s)
    finally:
        await engine.dispose()
        stop_telemetry()


@asynccontextmanager
async def _probes(
    config: WorkerConfig,
    engine: AsyncEngine,
    temporal: TemporalConnection,
    tasks: Sequence[BackgroundTask],
) -> AsyncIterator[None]:
    """Reports the health of the worker's dependencies; ends first, before the worker drains."""
    broker = BrokerCheck(config.kafka)
    checks: dict[str, Check] = {
        "postgres": partial(check, engine),
        "temporal": lambda: check_temporal(temporal.client),
        "kafka": broker.check,
    }
    monitor = HealthMonitor([], checks, tasks)
    try:
        async with answered_probes(config.host, config.health_port, monitor):
            yield
    finally:
        await broker.close()


def _channels(config: WorkerConfig) -> Callable[[str], Any]:
    return partial(
        open_channel,
        signer=config.signing_key.signer(),
        tls=config.tls,
        deadline_s=config.answer_timeout_s,
    )


def _direct_call_maker(config: WorkerConfig, engine: AsyncEngine) -> DirectCallMaker:
    channel_to = _channels(config)
    return DirectCallMaker(
        DirectCallStore(engine),
        Adapters(channel_to(config.tool_adapters_target)),
        Ledger(channel_to(config.cost_ledger_target)),
        AttachmentStore(engine),
    )


def executor_of(
    config: WorkerConfig, engine: AsyncEngine, settlements: Settlements, answers: WrittenParts
) -> EpisodeExecutor:
    channel_to = _channels(config)
    orchestrator = OrchestratorClient(channel_to(config.orchestrator_inference_target))
    adapters = Adapters(channel_to(config.tool_adapters_target))
    ledger = Ledger(channel_to(config.cost_ledger_target))
    store = EpisodeStore(engine)
    episodes = RunningEpisodes(store)
    logs = StepLogs(StepStore(engine), settlements)
    charges = Charges(ledger, logs)
    models = OrchestratorModels(orchestrator)
    decider = Decider(
        orchestrator, models, charges, logs, adapters, answers, config.prompt_tokens_max
    )
    to_registry = channel_to(config.tool_registry_target)
    registry = RegistryClient(to_registry)
    policies = PolicyChecks(RegistryPolicies(to_registry))
    children = ChildAnswers(store)
    files = AttachmentStore(engine)
    invoker = ToolCallInvoker(adapters, charges, logs, children, ToolFinder(registry), files)
    clients = ClientCalls(logs, ClientResultStore(engine))
    outbox = OutboxStore(engine)
    finish = EpisodeFinisher(
        episodes,
        logs,
        charges,
        adapters,
        outbox,
        settlements,
        CutOffChildren(logs, children),
        CutOffCalls(logs, charges),
    )
    judge = AnswerJudge(episodes, logs, VerifierCalls(registry, adapters, charges, logs))
    turns = TurnRunner(
        episodes, logs, decider, invoker, policies, clients, Replays(outbox), settlements
    )
    return EpisodeExecutor(turns, judge, finish)


def _offers(config: WorkerConfig, engine: AsyncEngine) -> ToolOffers:
    registry = RegistryClient(_channels(config)(config.tool_registry_target))
    return ToolOffers(
        registry, CompetenceRecords(CompetenceStore(engine)), config.tools_offered_max
    )


def _worker(
    config: WorkerConfig,
    engine: AsyncEngine,
    temporal: TemporalConnection,
    executor: EpisodeExecutor,
    offers: ToolOffers,
) -> Worker:
    admission = AdmitChildActivity(
        executor.turns.episodes,
        executor.turns.logs,
        EpisodeStore(engine),
        offers,
        executor.turns.decider.models,
    )
    activities = EpisodeActivities(executor)
    return Worker(
        temporal.client,
        task_queue=config.task_queue,
        workflows=[EpisodeWorkflow],
        activities=[
            activities.take_turn,
            activities.judge_answer,
            activities.finish_episode,
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


@asynccontextmanager
async def _leases(
    engine: AsyncEngine, holder: str, runners: Sequence[LeaseWorker[Any]], relay: Relay
) -> AsyncIterator[list[BackgroundTask]]:
    presence = Leadership(engine, holder)
    records = Listener(OUTBOX_CHANNEL, relay.notify, relay.notify)
    rows = [Listener(one.table.channel, one.notify, one.notify_all) for one in runners]
    notifications = Notifications(engine, [records, *rows])
    tasks = [
        BackgroundTask(f"{one.table.kind.replace(' ', '-')}-{part}", work, interval_s)
        for one in runners
        for part, work, interval_s in (
            ("acquiring", one.acquire, 0.0),
            ("leases", one.renew, RENEW_INTERVAL_S),
            ("orphans", partial(one.take_over, presence), ORPHANS_INTERVAL_S),
        )
    ]
    tasks += [
        BackgroundTask("notifications", notifications.keep_listening, CHECK_INTERVAL_S),
        BackgroundTask("presence", presence.keep, PRESENCE_INTERVAL_S),
    ]
    try:
        async with background(tasks):
            yield tasks
            await asyncio.gather(*(one.close() for one in runners))
    finally:
        await notifications.close()
        await presence.give_up()


@asynccontextmanager
async def _tasks(
    config: WorkerConfig,
    engine: AsyncEngine,
    version: CurrentVersion,
    settlements: Settlements,
    starter: WorkflowStarter,
    *,
    relay: Relay,
    answers: WrittenParts,
    offers: ToolOffers,
    policies: PolicyChecks,
) -> AsyncIterator[list[BackgroundTask]]:
    streaming, sweeping = Leadership(engine, RELAY_LOCK), Leadership(engine, SWEEP_LOCK)
    topic = TopicReader(config.kafka, config.trajectory_topic)
    reconciled = partial(streaming.lead, Reconciler(OutboxStore(engine), topic).reconcile)
    webhooks, delivery = WebhookStore(engine), Leadership(engine, WEBHOOK_LOCK)
    channel_to = _channels(config)
    to_adapters = channel_to(config.tool_adapters_target)
    to_ledger = channel_to(config.cost_ledger_target)
    to_orchestrator = channel_to(config.orchestrator_inference_target)
    to_registry = channel_to(config.tool_registry_target)
    sender = WebhookSender(webhooks, Adapters(to_adapters))
    ended = partial(sweeping.lead, WorkflowReconciler(EpisodeStore(engine), starter).reconcile)
    forgetting = DirectCallStore(engine).forget
    retention = RetentionStore(engine, config.keep_episodes_days, config.keep_evaluations_days)
    forgotten = partial(sweeping.lead, retention.forget)
    delivering = partial(delivery.lead, sender.send_due)
    alerts = BudgetAlerts(
        webhooks, Ledger(to_ledger), partial(webhooks.subscribers, EventType.BUDGET_ALERT)
    )
    alerted = partial(delivery.lead, alerts.poll)
    orchestrator = OrchestratorClient(to_orchestrator)
    promotions = Promotions(PromotionStore(engine), webhooks, orchestrator)
    promoted = partial(delivery.lead, promotions.poll)
    models = OrchestratorModels(orchestrator)
    live = LiveEvaluations(LiveStore(engine), EpisodeStore(engine), offers, models)
    follower = CatalogueFollower(RegistryClient(to_registry), [policies.known, offers.known])
    evaluated = partial(sweeping.lead, live.poll)
    trimming = partial(delivery.lead, webhooks.forget)
    events_forgotten = partial(delivery.lead, TenantEventStore(engine).forget)
    tasks = [
        BackgroundTask("trajectory-relay", partial(relay.lead, streaming), SPACING_S),
        BackgroundTask("reconciler", reconciled, config.reconcile_interval_s),
        BackgroundTask("workflow-reconciler", ended, config.reconcile_interval_s),
        BackgroundTask("webhooks", delivering, WEBHOOK_INTERVAL_S),
        BackgroundTask("budget-alerts", alerted, EVENTS_INTERVAL_S),
        BackgroundTask("promotions", promoted, EVENTS_INTERVAL_S),
        BackgroundTask("catalogue-changes", follower.follow, interval_s=0),
        BackgroundTask("live-evaluations", evaluated, LIVE_INTERVAL_S),
        BackgroundTask("old-webhook-deliveries", trimming, WEBHOOK_FORGET_INTERVAL_S),
        BackgroundTask("old-tenant-events", events_forgotten, EVENTS_FORGET_INTERVAL_S),
        BackgroundTask("settlements", settlements.flush_next, interval_s=0),
        BackgroundTask("answer-parts", answers.flush_next, interval_s=0),
        BackgroundTask("worker-version", version.follow, VERSION_INTERVAL_S),
        BackgroundTask("temporal-connection", version.temporal.renew, RENEWAL_INTERVAL_S),
        BackgroundTask("old-direct-calls", forgetting, FORGETTING_INTERVAL_S),
        BackgroundTask("old-episodes", forgotten, RETENTION_INTERVAL_S),
    ]
    try:
        async with background(tasks):
            yield tasks
    finally:
        await relay.close()
        for channel in (to_adapters, to_ledger, to_orchestrator, to_registry):
            await channel.close(None)


def main() -> None:
    config = load_settings(WorkerConfig)
    run(work(config))


if __name__ == "__main__":
    main()
