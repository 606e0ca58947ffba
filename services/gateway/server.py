"""The only place where things are constructed."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError

import telemetry
from gateway.api_keys import ApiKeys
from gateway.app import build_app
from gateway.catalogue import Catalogue
from gateway.chat_routes import ChatApi
from gateway.clients import CatalogueClient, EpisodesClient, Upstreams
from gateway.config import DatabaseSettings, Settings
from gateway.episode_ids import EpisodeIds
from gateway.health_routes import Check
from gateway.store_api_keys import PostgresApiKeyStore
from gateway.store_engine import check, open_engine
from gateway.store_idempotency import PostgresIdempotencyStore
from gateway.transcoding import Transcoder
from rpckit import migrations

log = logging.getLogger(__name__)

MIGRATIONS = Path(__file__).parent / "migrations"
IDEMPOTENCY_KEYS_KEPT = timedelta(days=7)
CLEANING_INTERVAL_S = 3_600.0


@asynccontextmanager
async def application(settings: Settings, draining: asyncio.Event) -> AsyncIterator[FastAPI]:
    """The application with everything it needs; leaving closes it all."""
    await migrations.upgrade(settings.database_url, MIGRATIONS)
    engine = open_engine(settings.database_url)
    upstreams = Upstreams.open(settings, settings.signing_key().signer())
    idempotency = PostgresIdempotencyStore(engine)
    cleaning = asyncio.create_task(_forget_old_keys(idempotency))
    keys = ApiKeys(PostgresApiKeyStore(engine), settings.key_cache_s)
    episodes = EpisodesClient(upstreams["podium.episodes.v1"])
    episode_ids = EpisodeIds(idempotency)
    names = CatalogueClient(upstreams["podium.orchestrator.v1"], upstreams["podium.registry.v1"])
    chat = ChatApi(
        catalogue=Catalogue(names, settings.catalogue_cache_s),
        episodes=episodes,
        episode_ids=episode_ids,
        wait_s=settings.chat_wait_s,
        keepalive_s=settings.keepalive_s,
        cancel_on_disconnect=settings.cancel_on_disconnect,
    )
    transcoder = Transcoder(upstreams, episodes, episode_ids, settings.keepalive_s, draining)
    checks: dict[str, Check] = {"postgres": partial(check, engine), "episodes": upstreams.check}
    try:
        yield build_app(settings, keys, chat, transcoder, checks)
    finally:
        cleaning.cancel()
        await upstreams.close()
        await engine.dispose()


@asynccontextmanager
async def api_keys(settings: DatabaseSettings) -> AsyncIterator[ApiKeys]:
    """The keys alone, for the command that creates the first one."""
    await migrations.upgrade(settings.database_url, MIGRATIONS)
    engine = open_engine(settings.database_url)
    try:
        yield ApiKeys(PostgresApiKeyStore(engine), cache_s=0)
    finally:
        await engine.dispose()


class DrainingServer(uvicorn.Server):
    """Says "not ready" first and stops accepting only when load balancers have seen it."""

    def __init__(self, config: uvicorn.Config, draining: asyncio.Event, wait_s: float) -> None:
        super().__init__(config)
        self._draining = draining
        self._wait_s = wait_s
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
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

    def _stop(self) -> None:
        self.should_exit = True


async def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT, then drains."""
    stop_telemetry = telemetry.configure("gateway", settings.telemetry)
    draining = asyncio.Event()
    try:
        async with application(settings, draining) as app:
            log.info("serving on http://%s:%d", settings.host, settings.port)
            config = _uvicorn_config(app, settings)
            await DrainingServer(config, draining, settings.drain_wait_s).serve()
    finally:
        stop_telemetry()


def _uvicorn_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        settings.host,
        settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=max(1, round(settings.drain_grace_s)),
    )


async def _forget_old_keys(store: PostgresIdempotencyStore) -> None:
    while True:
        try:
            await store.forget(IDEMPOTENCY_KEYS_KEPT)
        except (SQLAlchemyError, OSError) as error:
            log.warning("old idempotency keys were not deleted: %s", type(error).__name__)
        await asyncio.sleep(CLEANING_INTERVAL_S)
