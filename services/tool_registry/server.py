from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import grpc

from podium.registry.v1.description_service_pb2_grpc import (
    add_DescriptionServiceServicer_to_server,
)
from podium.registry.v1.policy_service_pb2_grpc import add_PolicyServiceServicer_to_server
from podium.registry.v1.tool_registry_service_pb2_grpc import (
    add_ToolRegistryServiceServicer_to_server,
)
from podium_kit import telemetry
from podium_kit.models.embeddings import Embeddings
from podium_kit.models.model_families import ModelFamiliesFile
from podium_kit.models.static_embeddings import StaticEmbeddings
from podium_kit.postgres.engine import check, open_engine
from podium_kit.postgres.migrations import upgrade
from podium_kit.postgres.notifications import CHECK_INTERVAL_S, Listener, Notifications
from podium_kit.rpc.background import BackgroundTask
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.health import Check
from podium_kit.rpc.server import Service, run_server
from tool_registry.config import ToolRegistrySettings
from tool_registry.descriptions.convert import described
from tool_registry.descriptions.service import Descriptions
from tool_registry.descriptions.servicer import DescriptionServicer
from tool_registry.descriptions.store import ProposalStore
from tool_registry.facts.convert import STORED_FACTS
from tool_registry.facts.measurements import Clock, MeasurementBook, utc_now
from tool_registry.facts.store import FactsStore
from tool_registry.following.service import Following
from tool_registry.following.store import PostgresFollowingStore
from tool_registry.history.clients import EpisodeHistory
from tool_registry.history.past_episodes import NoPastEpisodes
from tool_registry.history.service import PolicyHistory
from tool_registry.policies.bindings import PolicyBindings, PolicyUses
from tool_registry.policies.convert import preset_policies, stored_policy
from tool_registry.policies.store import PolicyStore
from tool_registry.policies.store_bindings import BindingStore
from tool_registry.policies.store_learning import LearningStore
from tool_registry.ranking.experience import Experience
from tool_registry.ranking.search import ToolSearch
from tool_registry.servicer import ToolRegistryServicer
from tool_registry.servicer_policies import PolicyServicer
from tool_registry.store_versions import CHANNEL
from tool_registry.tools.batch import ToolBatches
from tool_registry.tools.catalogue import Catalogues
from tool_registry.tools.changes import ActivationSchedule, CatalogueChanges
from tool_registry.tools.convert import ToolModelCapabilities, stored_spec, with_terms
from tool_registry.tools.service import Registry
from tool_registry.tools.store import ToolStore
from tool_registry.tools.store_batch import ToolBatchStore
from tool_registry.toolsets.clients import EffectivePrices, LedgerBudgets
from tool_registry.toolsets.policy_checks import BudgetedModels, PolicyValidator
from tool_registry.toolsets.price_cache import PriceCache
from tool_registry.toolsets.resolution import Resolution
from tool_registry.toolsets.service import Toolsets

MIGRATIONS = Path(__file__).parent / "migrations"
PURGE_INTERVAL_S = 3600.0


async def serve(settings: ToolRegistrySettings) -> None:
    stop_telemetry = telemetry.configure("tool-registry", settings.telemetry)
    await upgrade(settings.database_url, MIGRATIONS)
    try:
        async with assembled(settings) as served:
            await run_server(settings, *served)
    finally:
        stop_telemetry()


@asynccontextmanager
async def assembled(
    settings: ToolRegistrySettings, clock: Clock = utc_now
) -> AsyncIterator[
    tuple[list[Service], dict[str, Check], list[BackgroundTask], Callable[[], None]]
]:
    async with AsyncExitStack() as stack:
        engine = open_engine(settings.database_url)
        stack.push_async_callback(engine.dispose)
        channel = await _channel(stack, settings, settings.cost_ledger_target)
        tools, policies = ToolStore(engine, stored_spec), PolicyStore(engine, stored_policy)
        bindings = BindingStore(engine)
        learning = LearningStore(engine)
        presets = preset_policies()
        catalogues = Catalogues(
            tools, policies, bindings, learning, presets=presets, with_terms=with_terms
        )
        changes = CatalogueChanges(tools)
        notifications = Notifications(engine, [Listener(CHANNEL, changes.notify, changes.notify)])
        stack.push_async_callback(notifications.close)
        schedule = ActivationSchedule(policies, changes, clock)
        search = ToolSearch(_embeddings(stack, settings))
        episodes = await _episodes(stack, settings)
        prices = PriceCache(EffectivePrices(channel), settings.price_cache_s)
        resolution = Resolution(
            tools=tools,
            catalogues=catalogues,
            measurements=MeasurementBook(FactsStore(engine, STORED_FACTS), clock),
            prices=prices,
            toolsets=Toolsets(settings.llm_input_tokens_max),
            search=search,
            experience=Experience(episodes, settings.past_tasks_cache_s),
            uses=PolicyUses(policies),
            clock=clock,
        )
        retention = timedelta(days=settings.retention_days)
        registry = Registry(tools, policies, catalogues, clock, retention)
        history = PolicyHistory(episodes, resolution, clock)
        descriptions = Descriptions(
            registry, episodes, episodes, ProposalStore(engine), described, clock
        )
        following = Following(PostgresFollowingStore(engine), tools, catalogues)
        batches = ToolBatches(ToolBatchStore(engine), registry)
        services = [
            Service(
                add_ToolRegistryServiceServicer_to_server,
                ToolRegistryServicer(
                    registry,
                    batches,
                    resolution,
                    following,
                    changes=changes,
                    capabilities=ToolModelCapabilities(
                        ModelFamiliesFile(settings.model_families_file)
                    ),
                    models=BudgetedModels(prices),
                ),
                "podium.registry.v1.ToolRegistryService",
            ),
            Service(
                add_PolicyServiceServicer_to_server,
                PolicyServicer(
                    registry,
                    PolicyValidator(tools, catalogues, prices, LedgerBudgets(channel)),
                    resolution,
                    history,
                    PolicyBindings(bindings),
                    learning=learning,
                ),
                "podium.registry.v1.PolicyService",
            ),
            Service(
                add_DescriptionServiceServicer_to_server,
                DescriptionServicer(descriptions),
                "podium.registry.v1.DescriptionService",
            ),
        ]
        tasks = [
            BackgroundTask("purge", registry.purge, PURGE_INTERVAL_S),
            BackgroundTask("notifications", notifications.keep_listening, CHECK_INTERVAL_S),
            BackgroundTask("activations", schedule.announce, CHECK_INTERVAL_S),
        ]
        yield services, {"postgres": partial(check, engine)}, tasks, changes.end


async def _channel(
    stack: AsyncExitStack, settings: ToolRegistrySettings, target: str
) -> grpc.aio.Channel:
    return await stack.enter_async_context(open_channel(target, tls=settings.tls))


async def _episodes(
    stack: AsyncExitStack, settings: ToolRegistrySettings
) -> EpisodeHistory | NoPastEpisodes:
    if settings.episodes_target is None:
        return NoPastEpisodes()
    return EpisodeHistory(await _channel(stack, settings, settings.episodes_target))


def _embeddings(stack: AsyncExitStack, settings: ToolRegistrySettings) -> Embeddings:
    if settings.embeddings_base_url is None:
        return StaticEmbeddings()
    from podium_kit.models.openai_embeddings import OpenAiEmbeddings

    key = settings.embeddings_api_key
    endpoint = OpenAiEmbeddings(
        settings.embeddings_base_url,
        settings.embeddings_model,
        key.get_secret_value() if key else "",
    )
    stack.push_async_callback(endpoint.close)
    return endpoint
