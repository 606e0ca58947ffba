import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import pytest_asyncio

from embedded_servers import THROWN_AWAY, Database
from gateway.rest.routes import ROUTES, Route
from integration.gateway.gateway_under_test import TARGETS, run_gateway
from podium_kit.embedded.postgres import EmbeddedPostgres
from temporary_files import data_folder

LIBRARY_WORDS = re.compile(r"(?i)grpc|ipv[46]|127\.0|errno|sql|asyncpg|connect|socket|RST|deadline")
CHAT = {"model": "podium", "messages": [{"role": "user", "content": "6*7?"}]}


@pytest.fixture
def silent_target() -> Iterator[str]:
    """A process that is stopped: the kernel takes its connections, no one answers them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest_asyncio.fixture
async def own_postgres() -> AsyncIterator[EmbeddedPostgres]:
    with data_folder("postgres") as folder:
        server = EmbeddedPostgres(folder / "data", settings=THROWN_AWAY)
        await server.start()
        yield server
        for process in _processes(server):
            process.resume()
        await server.stop()


@pytest.mark.parametrize("stall", [False, True])
async def test_every_route_is_503_while_the_services_are_gone_or_stall(
    database: Database, tmp_path: Path, silent_target: str, stall: bool
) -> None:
    targets = dict.fromkeys(TARGETS, silent_target if stall else "127.0.0.1:1")
    async with (
        run_gateway(
            await database("gateway"), tmp_path, answer_timeout_s=0.5, **targets
        ) as gateway,
        gateway.http() as http,
    ):
        await _assert_all_away(http)


@pytest.mark.parametrize("known_key", [True, False])
async def test_every_route_is_503_while_postgresql_stalls(
    own_postgres: EmbeddedPostgres, tmp_path: Path, known_key: bool
) -> None:
    url = await own_postgres.create_database("gateway")
    caches = {"limits_cache_s": 0, "key_cache_s": 600 if known_key else 0}
    async with (
        run_gateway(url, tmp_path, database_timeout_s=0.5, **caches) as gateway,
        gateway.http() as http,
    ):
        assert (await http.get("/v1/tools")).status_code == 200
        for process in _processes(own_postgres):
            process.suspend()
        await _assert_all_away(http)
        for process in _processes(own_postgres):
            process.resume()
        assert (await http.get("/v1/tools")).status_code == 200


async def test_every_route_is_503_while_postgresql_is_dead(
    own_postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    url = await own_postgres.create_database("gateway")
    async with (
        run_gateway(url, tmp_path, limits_cache_s=0) as gateway,
        gateway.http() as http,
    ):
        assert (await http.get("/v1/tools")).status_code == 200
        await own_postgres.kill()
        await _assert_all_away(http)
        await own_postgres.start()
        assert (await http.get("/v1/tools")).status_code == 200


async def _assert_all_away(http: httpx.AsyncClient) -> None:
    replies = await asyncio.gather(
        *(http.request(route.method, _path(route), json=_body(route)) for route in ROUTES),
        http.get("/v1/models"),
        http.post("/v1/chat/completions", json=CHAT),
    )
    for reply in replies:
        where = f"{reply.request.method} {reply.request.url.path}: {reply.text}"
        assert reply.status_code == 503, where
        assert int(reply.headers["retry-after"]) >= 1, where
        assert not LIBRARY_WORDS.search(reply.json()["error"]["message"]), where


def _path(route: Route) -> str:
    return re.sub(r"\{\w+\}", "01968f10-0000-7000-8000-000000000000", route.path)


def _body(route: Route) -> dict[str, str] | None:
    return {} if route.method in ("POST", "PATCH", "PUT") else None


def _processes(server: EmbeddedPostgres) -> list[psutil.Process]:
    postmaster = psutil.Process(server.process.pid)
    return [postmaster, *postmaster.children(recursive=True)]
