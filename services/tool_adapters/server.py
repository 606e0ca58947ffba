from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import grpc

from podium.adapters.v1.corpus_service_pb2_grpc import add_CorpusServiceServicer_to_server
from podium.adapters.v1.secret_service_pb2_grpc import add_SecretServiceServicer_to_server
from podium.adapters.v1.tool_adapter_service_pb2_grpc import (
    add_ToolAdapterServiceServicer_to_server,
)
from podium_kit import telemetry
from podium_kit.models.model_families import ModelFamiliesFile
from podium_kit.postgres.engine import check, open_engine
from podium_kit.postgres.leadership import Leadership
from podium_kit.postgres.migrations import upgrade
from podium_kit.rpc.background import BackgroundTask
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.health import Check
from podium_kit.rpc.server import Service, run_server
from podium_kit.tool_kinds import CODE, FUNCTION, GRPC, HTTP, LLM, MCP, RETRIEVAL, ToolKind
from tool_adapters.adapter import Adapter, LateAdapter
from tool_adapters.calls.attempts import Attempts
from tool_adapters.calls.bulkheads import Gates
from tool_adapters.calls.effects import EffectLog
from tool_adapters.calls.facts import FactsBook
from tool_adapters.calls.store_effects import PostgresEffectStore
from tool_adapters.clients import FactsReports, LedgerCosts, RegistryServers, RegistryTools
from tool_adapters.code.adapter import CodeAdapter
from tool_adapters.config import ToolAdaptersSettings
from tool_adapters.convert import answer_from_store, stored_answer
from tool_adapters.corpus.charging import ChargedEmbeddings
from tool_adapters.corpus.convert import stored_usage, usage_from_store
from tool_adapters.corpus.service import Corpora
from tool_adapters.corpus.servicer import CorpusServicer
from tool_adapters.corpus.store import PostgresCorpusStore
from tool_adapters.corpus.store_bought import PostgresBoughtVectors
from tool_adapters.costs.sending import PendingCosts
from tool_adapters.costs.store import PostgresPendingCosts
from tool_adapters.following.clients import RegistryCatalogue, RegistryPermission
from tool_adapters.following.convert import listed_specs, server_from_row
from tool_adapters.following.follower import Follower
from tool_adapters.following.service import FollowedServers
from tool_adapters.following.servicer import FollowingRpcs
from tool_adapters.following.store import PostgresFollowedServerStore
from tool_adapters.following.watching import ListWatch
from tool_adapters.functions.adapter import FunctionAdapter
from tool_adapters.grpc.adapter import GrpcAdapter, GrpcMethods
from tool_adapters.guardrails.servers import ServerGuardrails
from tool_adapters.guardrails.service import Guardrails
from tool_adapters.http.adapter import HttpAdapter
from tool_adapters.http.auth import HttpAuthenticator
from tool_adapters.http.client import HttpClient
from tool_adapters.http.oauth2_tokens import OAuth2Tokens
from tool_adapters.llm.adapter import LlmAdapter
from tool_adapters.llm.model_parameters import ModelParameters
from tool_adapters.llm.own_servers import OwnServers
from tool_adapters.llm.prompts import Prompts
from tool_adapters.llm.providers import Providers
from tool_adapters.llm.store_parameters import PostgresLearntParameters
from tool_adapters.mcp.definitions import McpDefinitions
from tool_adapters.mcp.pool import McpPool
from tool_adapters.mcp.servers import ListableServers, McpServers
from tool_adapters.network_guard import NetworkGuard
from tool_adapters.response_cache.service import ResponseCache
from tool_adapters.response_cache.store import PostgresResponseCache
from tool_adapters.retrieval.adapter import RetrievalAdapter
from tool_adapters.sandbox import LocalRunner, Sandbox
from tool_adapters.sandbox.clients import RemoteRunner
from tool_adapters.sandbox.sandbox import Runner
from tool_adapters.secret_store import PLATFORM, KnownSecrets, MountedSecrets, SecretStore
from tool_adapters.secrets.envelope import MasterKeyFile
from tool_adapters.secrets.service import Secrets
from tool_adapters.secrets.servicer import SecretServicer
from tool_adapters.secrets.store import PostgresSecretStore
from tool_adapters.service import Invoker
from tool_adapters.servicer import ToolAdapterServicer
from tool_adapters.webhooks.delivery import Deliveries
from tool_adapters.workspaces.models import Quotas
from tool_adapters.workspaces.service import Workspaces
from tool_adapters.workspaces.store import PostgresWorkspaces

if TYPE_CHECKING:
    from podium_kit.models.openai_embeddings import OpenAiEmbeddings

MIGRATIONS = Path(__file__).parent / "migrations"
SWEEP_INTERVAL_S = 30.0
PRESENCE_INTERVAL_S = 1.0
FORGET_INTERVAL_S = 3600.0
COSTS_INTERVAL_S = 1.0
# Vectors of documents that no one sends again.
VECTORS_KEPT = timedelta(days=1)
# Rounds of the follower that may fail before another process takes over.
LEASE_ROUNDS = 3


async def serve(settings: ToolAdaptersSettings) -> None:
    stop_telemetry = telemetry.configure("tool-adapters", settings.telemetry)
    try:
        async with assembled(settings) as served:
            await run_server(settings, *served)
    finally:
        stop_telemetry()


@asynccontextmanager
async def assembled(
    settings: ToolAdaptersSettings,
) -> AsyncIterator[tuple[list[Service], dict[str, Check], list[BackgroundTask]]]:
    await upgrade(settings.database_url, MIGRATIONS)
    async with AsyncExitStack() as stack:
        engine = open_engine(settings.database_url, pool_size=20)
        stack.push_async_callback(engine.dispose)
        stored = Secrets(PostgresSecretStore(engine), MasterKeyFile(settings.master_keys_file))
        secrets = KnownSecrets(MountedSecrets(settings.secrets_folder), stored)
        guard = NetworkGuard(settings.allowed_hosts, settings.allow_private_networks)
        definitions = McpDefinitions(settings.mcp_servers_folder)
        servers = McpServers(secrets, guard, definitions)
        pool = McpPool(
            servers,
            sessions_max=settings.mcp_sessions_max,
            idle_timeout_s=settings.mcp_idle_timeout_s,
        )
        bought = PostgresBoughtVectors(engine)
        pending = PostgresPendingCosts(engine, stored_usage, usage_from_store)
        ledger = LedgerCosts(await _signed_channel(settings, settings.cost_ledger_target, stack))
        embedder = await _embeddings(settings, secrets, stack)
        embeddings = ChargedEmbeddings(embedder, pending, bought, ledger) if embedder else None
        corpora = Corpora(
            PostgresCorpusStore(engine, settings.corpora_bytes_per_tenant), embeddings
        )
        http = await stack.enter_async_context(HttpClient(guard))
        authenticator = HttpAuthenticator(secrets, OAuth2Tokens(http, secrets))
        quotas = Quotas(settings.workspace_bytes_max, settings.workspaces_bytes_per_tenant)
        workspaces = Workspaces(PostgresWorkspaces(engine, quotas))
        functions = FunctionAdapter()
        adapters: dict[ToolKind, Adapter] = {
            FUNCTION: functions,
            HTTP: HttpAdapter(http, authenticator),
            MCP: LateAdapter(partial(_mcp, pool)),
            CODE: await CodeAdapter.start(
                Sandbox(workspaces, await _runner(settings, stack)), settings.code_runs_max
            ),
            RETRIEVAL: RetrievalAdapter(corpora),
            LLM: LlmAdapter(
                http,
                secrets,
                Prompts(settings.prompts_folder),
                Providers(settings.provider_concurrency_max),
                ModelParameters(
                    ModelFamiliesFile(settings.model_families_file),
                    PostgresLearntParameters(engine),
                ),
                own_servers=OwnServers(settings.own_servers),
            ),
            GRPC: GrpcAdapter(GrpcMethods(guard), secrets),
        }
        for adapter in adapters.values():
            stack.push_async_callback(adapter.close)
        functions.warm_up()
        holder = uuid4().hex
        presence = Leadership(engine, holder)
        stack.push_async_callback(presence.give_up)
        # Before the first call: one without its lock looks like one whose process has ended.
        await presence.keep()
        effects = PostgresEffectStore(engine, stored_answer, answer_from_store, holder)
        responses = PostgresResponseCache(
            engine, stored_answer, answer_from_store, settings.response_cache_bytes_per_tenant
        )
        forwarding = await _forwarding_registry(settings, stack)
        signed = await _signed_channel(settings, settings.tool_registry_target, stack)
        invoker = Invoker(
            tools=RegistryTools(signed),
            adapters=adapters,
            attempts=Attempts(adapters),
            gates=Gates(),
            effects=EffectLog(effects),
            facts=FactsBook(),
            guardrails=Guardrails(ServerGuardrails(http, secrets)),
            responses=ResponseCache(responses),
        )
        followed = PostgresFollowedServerStore(engine, server_from_row)
        follower = Follower(
            store=followed,
            watch=ListWatch(servers, settings.mcp_relist_s),
            catalogue=RegistryCatalogue(signed),
            specs=listed_specs,
            lease_s=LEASE_ROUNDS * settings.mcp_follow_interval_s,
        )
        stack.push_async_callback(follower.close)
        reports = FactsReports(signed, reporter=uuid4().hex)
        report = partial(invoker.facts.report, reports.send)
        forget = partial(effects.forget_older_than, timedelta(days=settings.effects_kept_days))
        kept = timedelta(days=settings.workspaces_kept_days)
        tasks = [
            BackgroundTask("adapter-costs", PendingCosts(pending, ledger).send, COSTS_INTERVAL_S),
            BackgroundTask("facts", report, settings.facts_interval_s),
            BackgroundTask("follow-leases", follower.renew, settings.mcp_follow_interval_s),
            BackgroundTask("following", follower.resume, settings.mcp_follow_interval_s),
            BackgroundTask("idle-mcp-sessions", pool.close_idle, SWEEP_INTERVAL_S),
            BackgroundTask("master-key", stored.rewrap, settings.master_key_check_s),
            BackgroundTask("presence", presence.keep, PRESENCE_INTERVAL_S),
            BackgroundTask("old-effects", forget, FORGET_INTERVAL_S),
            BackgroundTask("old-responses", responses.forget_expired, SWEEP_INTERVAL_S),
            BackgroundTask(
                "old-workspaces", partial(workspaces.forget_older_than, kept), FORGET_INTERVAL_S
            ),
        ]
        if embeddings is not None:
            lost = partial(bought.forget_older_than, VECTORS_KEPT)
            tasks.append(BackgroundTask("bought-vectors", lost, FORGET_INTERVAL_S))
        listable = ListableServers(servers, RegistryServers(signed))
        following = FollowingRpcs(
            FollowedServers(followed, listable, RegistryPermission(forwarding))
        )
        services = _services(
            ToolAdapterServicer(invoker, listable, following, Deliveries(http, secrets)),
            corpora,
            SecretServicer(stored),
        )
        yield services, {"postgres": partial(check, engine)}, tasks


def _mcp(pool: McpPool) -> Adapter:
    from tool_adapters.mcp.adapter import McpAdapter

    return McpAdapter(pool)


async def _runner(settings: ToolAdaptersSettings, stack: AsyncExitStack) -> Runner:
    if not settings.sandbox_target:
        return LocalRunner(settings.warm_sandboxes)
    channel = open_channel(settings.sandbox_target, tls=settings.tls)
    return RemoteRunner(await stack.enter_async_context(channel))


async def _embeddings(
    settings: ToolAdaptersSettings, secrets: SecretStore, stack: AsyncExitStack
) -> "OpenAiEmbeddings | None":
    """Raises CallFailed, which names the secret, where the key of the endpoint is missing."""
    if settings.embeddings is None:
        return None
    name = settings.embeddings.secret
    api_key = await secrets.value(PLATFORM, name) if name else ""
    from podium_kit.models.openai_embeddings import OpenAiEmbeddings

    embeddings = OpenAiEmbeddings(settings.embeddings.base_url, settings.embeddings.model, api_key)
    stack.push_async_callback(embeddings.close)
    return embeddings


async def _forwarding_registry(
    settings: ToolAdaptersSettings, stack: AsyncExitStack
) -> grpc.aio.Channel:
    channel = open_channel(settings.tool_registry_target, tls=settings.tls)
    return await stack.enter_async_context(channel)


async def _signed_channel(
    settings: ToolAdaptersSettings, target: str, stack: AsyncExitStack
) -> grpc.aio.Channel:
    channel = open_channel(target, settings.signing_key.signer(), tls=settings.tls)
    return await stack.enter_async_context(channel)


def _services(
    adapters: ToolAdapterServicer, corpora: Corpora, secrets: SecretServicer
) -> list[Service]:
    return [
        Service(
            add_ToolAdapterServiceServicer_to_server,
            adapters,
            "podium.adapters.v1.ToolAdapterService",
        ),
        Service(
            add_CorpusServiceServicer_to_server,
            CorpusServicer(corpora),
            "podium.adapters.v1.CorpusService",
        ),
        Service(add_SecretServiceServicer_to_server, secrets, "podium.adapters.v1.SecretService"),
    ]
