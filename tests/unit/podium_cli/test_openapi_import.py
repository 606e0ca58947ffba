"""Fetching an OpenAPI document from an untrusted server."""

import gzip
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web

from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_cli.tools.openapi_import import DOCUMENT_BYTES_MAX, read_openapi
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway

TOO_MUCH = b"x" * (DOCUMENT_BYTES_MAX + 1)


async def large(_: web.Request) -> web.Response:
    return web.Response(body=TOO_MUCH)


async def packed(_: web.Request) -> web.Response:
    return web.Response(body=gzip.compress(TOO_MUCH), headers={"content-encoding": "gzip"})


@pytest_asyncio.fixture
async def server() -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes([web.get("/large", large), web.get("/packed", packed)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("large", "larger than 20 MiB"),
        # Compressed it is small enough, but compression was not requested.
        ("packed", "cannot be fetched"),
        ("nowhere", "404"),
    ],
)
async def test_what_is_no_document_of_that_size_is_rejected(
    server: str, path: str, cause: str
) -> None:
    async with Gateway(server, "key") as gateway:
        with pytest.raises(UsageError, match=cause):
            await read_openapi(gateway, f"{server}/{path}", pb.ReadOpenApiRequest())
