import uuid
from functools import partial
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.admission.arm_models import ArmModels
from episodes.admission.checks import ToolOffers
from episodes.admission.live_traffic import LiveTraffic
from episodes.approvals.store import ApprovalStore
from episodes.attachments.checks import FileQuota
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
from episodes.config import ServerConfig
from episodes.direct_calls.executor import CALL_QUEUE, DirectCallMaker, QueuedCalls
from episodes.direct_calls.service import DirectCalls, DirectTools, OwnCalls
from episodes.direct_calls.servicer import DirectCallsServicer
from episodes.direct_calls.store import DirectCallStore
from episodes.episodes.feedback import FeedbackGiving
from episodes.episodes.service import Episodes
from episodes.episodes.servicer import EpisodesServicer
from episodes.episodes.store_feedback import FeedbackStore
from episodes.episodes.store_search import EpisodeSearch
from episodes.episodes.store_watch import NewsStore
from episodes.episodes.watch import Watcher
from episodes.evaluations.service import Evaluations
from episodes.evaluations.servicer import EvaluationsServicer
from episodes.evaluations.store import EvaluationStore
from episodes.evaluations.store_calibrations import CalibrationStore
from episodes.evaluations.store_live import LiveStore
from episodes.evaluations.store_reports import RunReportStore
from episodes.evaluations.store_verdicts import VerdictStore
from episodes.execution.policy_checks import PolicyChecks
from episodes.execution.registry_answers import CatalogueFollower
from episodes.publication.servicer import DeadLettersServicer
from episodes.publication.store_dead_letters import DeadLetterStore
from episodes.publication.store_outbox import OutboxStore
from episodes.queue.lease_worker import PRESENCE_INTERVAL_S, RENEW_INTERVAL_S, LeaseWorker
from episodes.queue.leased_episodes import Handover
from episodes.queue.metrics import INTERVAL_S as METRICS_INTERVAL_S
from episodes.queue.metrics import BacklogMetrics, oldest, total
from episodes.queue.store import EPISODE_QUEUE, EpisodeQueue, WorkQueue
from episodes.step_log.answer_parts import WatchedAnswers
from episodes.step_log.store import StepStore
from episodes.step_log.store_client_results import ClientResultStore
from episodes.step_log.store_notifications import CHANNEL, ENDS_CHANNEL
from episodes.step_log.wakeups import Wakeups
from episodes.store import EpisodeStore
from episodes.tenant_events.service import TenantEvents
from episodes.tenant_events.servicer import TenantEventsServicer
from episodes.tenant_events.store import TenantEventStore
from episodes.webhooks.polled_events import INTERVAL_S as ALERTS_INTERVAL_S
from episodes.webhooks.polled_events import BudgetAlerts
from episodes.webhooks.service import Webhooks
from episodes.webhooks.servicer import WebhooksServicer
from episodes.webhooks.store import WebhookStore
from episodes.workflows.connection import (
    RENEWAL_INTERVAL_S,
    TemporalConnection,
    backlog_age_s,
    waiting_tasks,
)
from episodes.workflows.starter import WorkflowStarter
from podium.episodes.v1.dead_letter_service_pb2_grpc import add_DeadLetterServiceServicer_to_server
from podium.episodes.v1.direct_call_service_pb2_grpc import add_DirectCallServiceServicer_to_server
from podium.episodes.v1.episode_service_pb2_grpc import add_EpisodeServiceServicer_to_server
from podium.episodes.v1.evaluation_service_pb2_grpc import add_EvaluationServiceServicer_to_server
from podium.episodes.v1.tenant_event_service_pb2_grpc import (
    add_TenantEventServiceServicer_to_server,
)
from podium.episodes.v1.webhook_service_pb2_grpc import add_WebhookServiceServicer_to_server
from podium_kit import telemetry
from podium_kit.limits.concurrency import FairThread
from podium_kit.postgres.engine import check, open_engine
from podium_kit.postgres.leadership import Leadership
from podium_kit.postgres.migrations import upgrade
from podium_kit.postgres.notifications import CHECK_INTERVAL_S, Listener, Notifications
from podium_kit.rpc.background import BackgroundTask
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.server import Service, run_server

MIGRATIONS = Path(__file__).parent / "migrations"


async def serve(config: ServerConfig) -> None:
    stop_telemetry = telemetry.configure("episodes", config.telemetry)
    await upgrade(config.database_url, MIGRATIONS)
    engine = open_engine(config.database_url, pool_size=16)
    temporal = await TemporalConnection.open(
        config.temporal_target, config.temporal_namespace, config.temporal
    )
    channel_to = partial(open_channel, tls=config.tls, deadline_s=config.answer_timeout_s)
    quota = FileQuota(config.files_per_tenant, config.file_bytes_per_tenant)
    store = EpisodeStore(engine, quota)
    steps, outbox = StepStore(engine), OutboxStore(engine)
    wakeups, ends, answers = Wakeups(), Wakeups(), WatchedAnswers()
    watcher = Watcher(store, NewsStore(engine), wakeups, ends, answers)

    def notify(news: str) -> None:
        if not answers.take(news):
            wakeups.notify(news)

    def notify_end(episode_id: str) -> None:
        wakeups.notify(episode_id)
        ends.notify(episode_id)

    listeners = [
        Listener(CHANNEL, notify, wakeups.notify_all),
        Listener(ENDS_CHANNEL, notify_end, ends.notify_all),
    ]
    notifications = Notifications(engine, listeners)
    live = LiveStore(engine)
    orchestrator = OrchestratorClient(channel_to(config.orchestrator_inference_target))
    registry = RegistryClient(channel_to(config.tool_registry_target))
    starter = WorkflowStarter(temporal, config.task_queue, config.temporal_timeout_s)
    episodes = Episodes(
        store=store,
        search=EpisodeSearch(engine),
        steps=steps,
        results=ClientResultStore(engine),
        approvals=ApprovalStore(engine),
        outbox=outbox,
        starter=starter,
        handover=Handover(EpisodeQueue(engine), starter),
        watcher=watcher,
        registry=registry,
        ledger=Ledger(channel_to(config.cost_ledger_target)),
        orchestrator=orchestrator,
        models=OrchestratorModels(orchestrator),
        offers=ToolOffers(
            registry, CompetenceRecords(CompetenceStore(engine)), config.tools_offered_max
        ),
        live=LiveTraffic(live),
        checks=FairThread(),
    )
    own_calls = _own_calls(config, engine)
    presence = Leadership(engine, own_calls.holder)
    direct_calls = DirectCalls(
        store=DirectCallStore(engine, quota),
        wakeups=wakeups,
        tools=DirectTools(registry),
        policies=PolicyChecks(RegistryPolicies(registry.channel)),
        ledger=episodes.ledger,
        own=own_calls,
    )
    signed_to = partial(channel_to, signer=config.signing_key.signer())
    follower = CatalogueFollower(
        RegistryClient(signed_to(config.tool_registry_target)),
        [direct_calls.tools.known, direct_calls.policies.known, episodes.offers.known],
    )
    evaluations = Evaluations(
        EvaluationStore(engine),
        VerdictStore(engine),
        live,
        RunReportStore(engine),
        check_models=ArmModels(episodes.models, episodes.ledger).check,
        runs_max=config.evaluations_per_tenant,
    )
    events = TenantEvents(TenantEventStore(engine))
    ledger = Ledger(signed_to(config.cost_ledger_target))
    alerts = BudgetAlerts(WebhookStore(engine), ledger, events.followed)
    services = [
        Service(
            add_EpisodeServiceServicer_to_server,
            EpisodesServicer(episodes, FeedbackGiving(FeedbackStore(engine))),
            "podium.episodes.v1.EpisodeService",
        ),
        Service(
            add_DirectCallServiceServicer_to_server,
            DirectCallsServicer(direct_calls),
            "podium.episodes.v1.DirectCallService",
        ),
        Service(
            add_DeadLetterServiceServicer_to_server,
            DeadLettersServicer(DeadLetterStore(engine)),
            "podium.episodes.v1.DeadLetterService",
        ),
        Service(
            add_WebhookServiceServicer_to_server,
            WebhooksServicer(Webhooks(WebhookStore(engine))),
            "podium.episodes.v1.WebhookService",
        ),
        Service(
            add_TenantEventServiceServicer_to_server,
            TenantEventsServicer(events),
            "podium.episodes.v1.TenantEventService",
        ),
        Service(
            add_EvaluationServiceServicer_to_server,
            EvaluationsServicer(evaluations, CalibrationStore(engine)),
            "podium.episodes.v1.EvaluationService",
        ),
    ]
    queued, calls = WorkQueue(engine, EPISODE_QUEUE), WorkQueue(engine, CALL_QUEUE)
    metrics = BacklogMetrics(
        outbox.oldest_pending_s,
        oldest(
            partial(backlog_age_s, temporal, config.task_queue),
            queued.backlog_age_s,
            calls.backlog_age_s,
        ),
        total(queued.size, calls.size, partial(waiting_tasks, temporal, config.task_queue)),
    )
    tasks = [
        BackgroundTask("notifications", notifications.keep_listening, CHECK_INTERVAL_S),
        BackgroundTask("catalogue-changes", follower.follow, interval_s=0),
        BackgroundTask("temporal-connection", temporal.renew, RENEWAL_INTERVAL_S),
        BackgroundTask("backlog-metrics", metrics.poll, METRICS_INTERVAL_S),
        BackgroundTask("streamed-alerts", alerts.poll, ALERTS_INTERVAL_S),
        BackgroundTask("direct-call-leases", own_calls.worker.renew, RENEW_INTERVAL_S),
        BackgroundTask("presence", presence.keep, PRESENCE_INTERVAL_S),
    ]
    try:
        await run_server(
            config,
            services,
            {"postgres": partial(check, engine)},
            tasks,
            partial(own_calls.worker.drain, config.drain_grace_s),
        )
    finally:
        # Workers make what does not end with the connections of its callers.
        await own_calls.worker.close()
        await presence.give_up()
        await notifications.close()
        await engine.dispose()
        stop_telemetry()


def _own_calls(config: ServerConfig, engine: AsyncEngine) -> OwnCalls:
    channel_to = partial(
        open_channel,
        signer=config.signing_key.signer(),
        tls=config.tls,
        deadline_s=config.answer_timeout_s,
    )
    holder = uuid.uuid4().hex
    queue = WorkQueue(engine, CALL_QUEUE, holder)
    maker = DirectCallMaker(
        DirectCallStore(engine),
        Adapters(channel_to(config.tool_adapters_target)),
        Ledger(channel_to(config.cost_ledger_target)),
        AttachmentStore(engine),
    )
    worker = LeaseWorker(queue, QueuedCalls(queue, maker), config.max_concurrent_calls)
    return OwnCalls(worker, holder, maker.followed)
