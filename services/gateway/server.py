import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from fastapi import FastAPI
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.types import ASGIApp

from gateway.a2a_server.clients import TasksClient
from gateway.access import Doorkeeper
from gateway.app import Apis, Tenancy, build_app
from gateway.audit.attempts import ATTEMPTS_INTERVAL_S, RejectedAttempts
from gateway.audit.service import AuditLog
from gateway.audit.store import PostgresAuditStore
from gateway.chat.catalogue import ChatModels
from gateway.chat.starting import EpisodeStarter
from gateway.clients import CatalogueClient, EpisodesClient, Upstreams
from gateway.clients_direct_calls import DirectCallsClient
from gateway.clients_events import TenantEventsClient
from gateway.config import MIGRATIONS, GatewaySettings
from gateway.episode_ids import EpisodeIds
from gateway.http.connection import BoundedHttp
from gateway.http.health_routes import Check, health_router
from gateway.http.late_application import LateApplication
from gateway.keys.service import WRITE_INTERVAL_S, ApiKeys, KeyUses
from gateway.keys.store import PostgresApiKeyStore
from gateway.limits.open_requests import RENEW_INTERVAL_S, OpenRequests
from gateway.limits.rate_limiter import RateLimiter
from gateway.limits.service import LimitBook
from gateway.limits.store import PostgresBucketStore, PostgresLimitsStore, PostgresSlotStore
from gateway.mcp_server.clients import PolicyToolsClient
from gateway.mcp_server.clients_resources import ResourcesClient
from gateway.mcp_server.models import PATH as MCP_PATH
from gateway.oidc.protected_resource import ProtectedResource
from gateway.oidc.sign_in import OidcSignIn
from gateway.oidc.verifier import OidcVerifier
from gateway.platform_status import platform_status_router
from gateway.responses.clients import McpToolsClient
from gateway.responses.mcp_servers import RegisteredMcpTools
from gateway.responses.routes import ResponsesApi
from gateway.rest.audited_calls import AuditedCalls
from gateway.rest.openapi import document
from gateway.rest.store_idempotency import PostgresIdempotencyStore
from gateway.rest.transcoding import Transcoder
from gateway.sessions.service import ConsoleSessions
from gateway.sessions.store import PostgresSessionStore
from gateway.views.store import PostgresViewStore
from podium_kit import telemetry
from podium_kit.postgres import migrations
from podium_kit.postgres.engine import check, open_engine
from podium_kit.rpc.background import BackgroundTask, background
from podium_kit.rpc.tls import http_server_context
from podium_kit.rpc.tokens import TokenSigner

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from gateway.mcp_server.endpoint import McpEndpoint


IDEMPOTENCY_KEYS_KEPT = timedelta(days=7)
CLEANING_INTERVAL_S = 3_600.0
# Less than the 5 s between the end of a drain and the kill that the chart asks for.
LEAVING_S = 3.0
EPISODES = "podium.episodes.v1"


@asynccontextmanager
async def application(settings: GatewaySettings, draining: asyncio.Event) -> AsyncIterator[FastAPI]:
    await migrations.upgrade(settings.database_url, MIGRATIONS)
    async with AsyncExitStack() as stack:
        parts = await _parts(settings, settings.signing_key().signer(), draining, stack)
        await stack.enter_async_context(background(parts.tasks))
        yield parts.app


async def openapi_document() -> dict[str, Any]:
    """The document that a running gateway serves, without any server to connect to."""
    nowhere = "localhost:1"
    settings = GatewaySettings(
        database_url="postgresql+asyncpg://localhost/nothing",
        port=0,
        signing_key_file=Path(os.devnull),
        episodes_target=nowhere,
        tool_registry_target=nowhere,
        cost_ledger_target=nowhere,
        tool_adapters_target=nowhere,
        orchestrator_inference_target=nowhere,
    )
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    async with AsyncExitStack() as stack:
        parts = await _parts(settings, TokenSigner(pem, "nobody"), asyncio.Event(), stack)
        return document(parts.app)


@dataclass(frozen=True)
class _Parts:
    """The application, and what runs beside it; nothing is connected yet."""

    app: FastAPI
    tasks: list[BackgroundTask]


async def _parts(
    settings: GatewaySettings, signer: TokenSigner, draining: asyncio.Event, stack: AsyncExitStack
) -> _Parts:
    engine = open_engine(settings.database_url, answer_timeout_s=settings.database_timeout_s)
    stack.push_async_callback(engine.dispose)
    upstreams = Upstreams.open(settings, signer)
    stack.push_async_callback(upstreams.close)
    tenancy, tasks = await _tenancy(settings, engine, stack)
    idempotency = PostgresIdempotencyStore(engine)
    forget = partial(idempotency.forget, IDEMPOTENCY_KEYS_KEPT)
    tasks.append(BackgroundTask("old-idempotency-keys", forget, CLEANING_INTERVAL_S))
    episodes, episode_ids = EpisodesClient(upstreams[EPISODES]), EpisodeIds(idempotency)
    calls = AuditedCalls(upstreams, tenancy.log)
    checks: dict[str, Check] = {"postgres": partial(check, engine), "episodes": upstreams.check}
    starter = _starter(settings, upstreams, episodes, episode_ids)
    app = build_app(
        settings,
        tenancy,
        Apis(
            ResponsesApi(
                starter,
                episodes,
                RegisteredMcpTools(McpToolsClient(upstreams["podium.registry.v1"])),
            ),
            LateApplication(partial(_mcp, starter, upstreams, settings, stack)),
            LateApplication(partial(_a2a, starter, upstreams, tenancy.protected)),
        ),
        Transcoder(
            calls,
            episodes,
            TenantEventsClient(upstreams[EPISODES]),
            episode_ids,
            settings.keepalive_s,
            draining,
        ),
        [
            health_router(checks, tasks, draining),
            platform_status_router(upstreams.health_checks(), checks["postgres"], tasks),
        ],
    )
    return _Parts(app, tasks)


async def _mcp(
    starter: EpisodeStarter, upstreams: Upstreams, settings: GatewaySettings, stack: AsyncExitStack
) -> ASGIApp:
    def build() -> "McpEndpoint":
        from gateway.mcp_server.endpoint import McpEndpoint
        from gateway.mcp_server.policy_tools import ToolCalls
        from gateway.mcp_server.resources import TenantResources

        tools = PolicyToolsClient(upstreams["podium.registry.v1"], upstreams[EPISODES])
        resources = ResourcesClient(upstreams["podium.adapters.v1"], upstreams[EPISODES])
        return McpEndpoint(
            starter,
            ToolCalls(tools, starter.episode_ids, settings.chat_wait_s),
            TenantResources(resources),
        )

    endpoint = await asyncio.to_thread(build)
    await stack.enter_async_context(endpoint.running())
    return endpoint


async def _a2a(
    starter: EpisodeStarter, upstreams: Upstreams, protected: ProtectedResource
) -> ASGIApp:
    def build() -> ASGIApp:
        from gateway.a2a_server.endpoint import a2a_endpoint
        from gateway.a2a_server.handler import TaskHandler

        return a2a_endpoint(TaskHandler(starter, TasksClient(upstreams[EPISODES])), protected)

    return await asyncio.to_thread(build)


async def _tenancy(
    settings: GatewaySettings, engine: AsyncEngine, stack: AsyncExitStack
) -> tuple[Tenancy, list[BackgroundTask]]:
    audit = PostgresAuditStore(engine)
    log_of_changes, attempts = AuditLog(audit), RejectedAttempts(audit)
    store = PostgresApiKeyStore(engine)
    keys = ApiKeys(store, log_of_changes, settings.key_cache_s)
    uses, oidc = KeyUses(store), OidcVerifier(settings.oidc_issuers)
    sessions = ConsoleSessions(PostgresSessionStore(engine), keys, log_of_changes)
    slots = OpenRequests(PostgresSlotStore(engine, uuid4()))
    for close in (oidc.close, slots.close, uses.write, attempts.write):
        stack.push_async_callback(close)
    tasks = [
        BackgroundTask("key-uses", uses.write, WRITE_INTERVAL_S),
        BackgroundTask("rejected-attempts", attempts.write, ATTEMPTS_INTERVAL_S),
        BackgroundTask("ended-sessions", sessions.forget, CLEANING_INTERVAL_S),
        BackgroundTask("open-requests", slots.renew, RENEW_INTERVAL_S),
    ]
    tenancy = Tenancy(
        keys=keys,
        doorkeeper=Doorkeeper(keys, uses, oidc, sessions),
        sessions=sessions,
        sign_in=OidcSignIn(settings.oidc_issuers, oidc),
        protected=ProtectedResource(settings.oidc_issuers, settings.public_url, MCP_PATH),
        log=log_of_changes,
        attempts=attempts,
        views=PostgresViewStore(engine),
        limits=LimitBook(
            PostgresLimitsStore(engine),
            log_of_changes,
            settings.default_limits(),
            settings.limits_cache_s,
        ),
        rate=RateLimiter(PostgresBucketStore(engine)),
        open_requests=slots,
    )
    return tenancy, tasks


def _starter(
    settings: GatewaySettings,
    upstreams: Upstreams,
    episodes: EpisodesClient,
    episode_ids: EpisodeIds,
) -> EpisodeStarter:
    names = CatalogueClient(upstreams["podium.orchestrator.v1"], upstreams["podium.registry.v1"])
    return EpisodeStarter(
        catalogue=ChatModels(names, settings.catalogue_cache_s),
        episodes=episodes,
        direct_calls=DirectCallsClient(upstreams[EPISODES]),
        episode_ids=episode_ids,
        wait_s=settings.chat_wait_s,
        keepalive_s=settings.keepalive_s,
        cancel_on_disconnect=settings.cancel_on_disconnect,
    )


class DrainingServer(uvicorn.Server):
    """Says "not ready" first and stops accepting only when load balancers have seen it."""

    def __init__(self, config: uvicorn.Config, draining: asyncio.Event, wait_s: float) -> None:
        super().__init__(config)
        self._draining = draining
        self._wait_s = wait_s
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, _signal: int, _frame: FrameType | None) -> None:
        """Called by uvicorn on SIGTERM and SIGINT; a second signal does not wait.

        The signal is not passed on to uvicorn, which would raise it again after serving
        and so kill the process before its spans are flushed.
        """
        if self._draining.is_set():
            self.force_exit = self.should_exit
            self.should_exit = True
            return
        # A signal handler may run between any two steps of the loop.
        self._loop.call_soon_threadsafe(self._draining.set)
        self._loop.call_soon_threadsafe(self._loop.call_later, self._wait_s, self._stop)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Lets requests that the drain cuts off leave their episodes, while services are there."""
        await super().shutdown(sockets)
        if self.server_state.tasks and not self.force_exit:
            await asyncio.wait(self.server_state.tasks, timeout=LEAVING_S)

    def _stop(self) -> None:
        self.should_exit = True


async def serve(settings: GatewaySettings) -> None:
    stop_telemetry = telemetry.configure("gateway", settings.telemetry)
    draining = asyncio.Event()
    try:
        async with application(settings, draining) as app:
            scheme = "http" if settings.tls is None else "https"
            log.info("serving on %s://%s:%d", scheme, settings.host, settings.port)
            config = uvicorn_config(app, settings)
            await DrainingServer(config, draining, settings.drain_wait_s).serve()
    finally:
        stop_telemetry()


def uvicorn_config(app: FastAPI, settings: GatewaySettings) -> uvicorn.Config:
    context = None if settings.tls is None else http_server_context(settings.tls)
    return uvicorn.Config(
        app,
        settings.host,
        settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        http=BoundedHttp,
        timeout_keep_alive=settings.idle_connection_s,  # type: ignore[arg-type]
        timeout_graceful_shutdown=max(1, round(settings.drain_grace_s)),
        ssl_context_factory=None if context is None else lambda *_: context,
    )
