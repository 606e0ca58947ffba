from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from orchestrator_inference.config import OrchestratorInferenceSettings
from orchestrator_inference.engine.client import EngineClient, engine_client
from orchestrator_inference.engine.engine import Engine, EnginePool
from orchestrator_inference.engine.merged import MergedEngines
from orchestrator_inference.engine.openai import OpenAiEngine
from orchestrator_inference.engine.replicas import EngineReplica, replica_urls
from orchestrator_inference.service import Orchestrator, Policy
from orchestrator_inference.servicer import OrchestratorServicer
from orchestrator_inference.versions.admission import (
    AdmissionRules,
    Replicas,
    VersionAdmission,
)
from orchestrator_inference.versions.catalogue import VersionCatalogue
from orchestrator_inference.versions.routing import VersionRouting
from orchestrator_inference.versions.servicer import ModelVersionServicer
from podium.orchestrator.v1 import model_version_service_pb2_grpc as versions_rpc
from podium.orchestrator.v1 import orchestrator_service_pb2_grpc as rpc
from podium_kit import telemetry
from podium_kit.models.model_families import ModelFamiliesFile
from podium_kit.policy_versions import Aliases, Format, VersionStore
from podium_kit.rpc.background import BackgroundTask
from podium_kit.rpc.health import Check
from podium_kit.rpc.server import Service, run_server

SERVICE_NAME = "podium.orchestrator.v1.OrchestratorService"
VERSIONS_SERVICE_NAME = "podium.orchestrator.v1.ModelVersionService"


async def serve(settings: OrchestratorInferenceSettings) -> None:
    shutdown = telemetry.configure("orchestrator-inference", settings.telemetry)
    try:
        async with assembled(settings) as served:
            await run_server(settings, *served)
    finally:
        shutdown()


@asynccontextmanager
async def assembled(
    settings: OrchestratorInferenceSettings,
) -> AsyncIterator[tuple[list[Service], dict[str, Check], list[BackgroundTask]]]:
    base_url = str(settings.engine_base_url)
    async with engine_client(base_url, _key(settings), settings.max_in_flight) as client:
        engine = OpenAiEngine(
            client,
            timeout_s=settings.engine_timeout_s,
            default_model=settings.default_model,
            model_aliases=settings.model_aliases,
            families=ModelFamiliesFile(settings.model_families_file),
        )
        async with _served_versions(settings, client, engine) as (pool, routing, tasks):
            orchestrator = Orchestrator(pool, _policy(settings), settings.max_in_flight, routing)
            versions = VersionCatalogue(settings.policy_store)
            yield _services(orchestrator, versions), {"engine": engine.check}, tasks


def _services(orchestrator: Orchestrator, versions: VersionCatalogue) -> list[Service]:
    return [
        Service(
            rpc.add_OrchestratorServiceServicer_to_server,
            OrchestratorServicer(orchestrator),
            SERVICE_NAME,
        ),
        Service(
            versions_rpc.add_ModelVersionServiceServicer_to_server,
            ModelVersionServicer(versions),
            VERSIONS_SERVICE_NAME,
        ),
    ]


@asynccontextmanager
async def _served_versions(
    settings: OrchestratorInferenceSettings, client: EngineClient, main: OpenAiEngine
) -> AsyncIterator[tuple[Engine, VersionRouting | None, list[BackgroundTask]]]:
    if settings.policy_store is None:
        yield main, None, []
        return
    store = VersionStore(settings.policy_store)
    async with _merged_engines(settings) as merged:
        admission: VersionAdmission
        routing = VersionRouting(
            Aliases(store.root), lambda: admission.admitted, lambda: admission.owners
        )
        admission = VersionAdmission(
            store,
            _replicas(settings, client, merged),
            _admission_rules(settings),
            routing.in_use,
        )
        rounds = BackgroundTask(
            "versions",
            admission.reconcile,
            settings.publish_check_s,
            # An engine may take as long to load a version as to complete a prompt.
            round_max_s=settings.engine_timeout_s,
        )
        yield EnginePool(main, merged.engines), routing, [rounds]


def _merged_engines(settings: OrchestratorInferenceSettings) -> MergedEngines:
    return MergedEngines(
        [str(url) for url in settings.merged_engine_urls],
        _key(settings),
        settings.engine_timeout_s,
        settings.max_in_flight,
    )


def _replicas(
    settings: OrchestratorInferenceSettings, client: EngineClient, merged: MergedEngines
) -> dict[Format, Replicas]:
    known: dict[str, EngineReplica] = {}

    async def adapters() -> list[EngineReplica]:
        urls = await replica_urls(str(settings.engine_replicas_url or settings.engine_base_url))
        for url in urls:
            known.setdefault(url, EngineReplica(client, url, settings.engine_timeout_s))
        return [known[url] for url in urls]

    return {Format.ADAPTER: adapters, Format.MERGED: merged.replicas}


def _admission_rules(settings: OrchestratorInferenceSettings) -> AdmissionRules:
    return AdmissionRules(
        engine_store=settings.policy_store_in_engines or str(settings.policy_store),
        quorum=settings.publish_quorum,
        tolerance_nats=settings.canary_tolerance_nats,
        kept=settings.versions_kept,
        retire_after_s=settings.retire_after_s,
    )


def _key(settings: OrchestratorInferenceSettings) -> str | None:
    secret = settings.engine_api_key
    return secret.get_secret_value() if secret else None


def _policy(settings: OrchestratorInferenceSettings) -> Policy:
    return Policy(
        budgets=settings.prompt,
        parallel_calls_max=settings.parallel_calls_max,
        string_bounds=settings.string_bounds,
        any_whitespace=settings.engine_any_whitespace,
        model_sku=settings.model_sku,
        prompt_mode=settings.prompt_mode,
        template_arguments=settings.template_arguments,
    )
