import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import uvicorn

from embedded_servers import Database
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.tool_specs import http_spec
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2

KEY = "BANK-LIVE-KEY-8842"
REST = "POST /inbox HTTP/1.1\r\nHost: api\r\nContent-Length: 200\r\n\r\n"
TEXT: dict[str, Any] = {
    "body_encoding": tool_pb2.BODY_ENCODING_TEXT,
    "body_argument": "body",
    "wire_names": {"endings": "Transfer-Encoding"},
}


class Api:
    """An API of several tenants, for which Transfer-Encoding wins over Content-Length."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                break
            body += event["body"]
            more = event["more_body"]
        key = dict(scope["headers"]).get(b"x-k", b"").decode()
        self.seen.append((scope["path"], key, body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})


@pytest_asyncio.fixture(params=["h11", "httptools"])
async def api(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Api, str]]:
    found = Api()
    config = uvicorn.Config(
        found, port=0, http=request.param, lifespan="off", log_level="error", ws="none"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield found, f"http://127.0.0.1:{port}"
    server.should_exit = True
    await serving


@pytest_asyncio.fixture
async def adapters(database: Database, tmp_path: Path) -> AsyncIterator[AdaptersUnderTest]:
    folder = tmp_path / "secrets" / "bank"
    folder.mkdir(parents=True)
    (folder / "key").write_text(KEY)
    async with (
        running_registry() as registry,
        run_adapters(
            await database("tool_adapters"),
            tmp_path,
            registry,
            allowed_hosts=frozenset({"127.0.0.1"}),
            secrets_folder=tmp_path / "secrets",
        ) as running,
    ):
        yield running


def ways(url: str) -> list[tuple[tool_pb2.ToolSpec, str]]:
    get = http_spec(f"{url}/x", http={"headers": {"Transfer-Encoding": "chunked"}})
    constant = http_spec(
        f"{url}/x", "POST", http=TEXT | {"headers": {"transfer-encoding": "chunked"}}
    )
    argument = http_spec(
        f"{url}/x",
        "POST",
        http=TEXT | {"parameter_locations": {"endings": tool_pb2.PARAMETER_LOCATION_HEADER}},
    )
    short = http_spec(f"{url}/x", "POST", http=TEXT | {"headers": {"Content-Length": "0"}})
    waiting = http_spec(f"{url}/x", "POST", http=TEXT | {"headers": {"Expect": "100-continue"}})
    plain = http_spec(f"{url}/x", "GET", http=TEXT)
    chunked = f'"body": "0\\r\\n\\r\\n{REST}"'.replace("\r\n", "\\r\\n")
    whole = f'"body": "{REST}"'.replace("\r\n", "\\r\\n")
    return [
        (get, "{}"),
        (constant, f"{{{chunked}}}"),
        (argument, f'{{"endings": "chunked", {chunked}}}'),
        (short, f"{{{whole}}}"),
        (waiting, f"{{{whole}}}"),
        # The body of a GET is framed by us; no server reads a request in it.
        (plain, f"{{{whole}}}"),
    ]


async def call(adapters: AdaptersUnderTest, tenant: str, name: str, arguments: str) -> Any:
    async with adapters.as_caller(tenant) as stub:
        return await stub.Invoke(
            pb.InvokeRequest(
                key=f"{tenant}/1/tool/{name}",
                episode_id=tenant,
                tool_name=name,
                tool_version=1,
                arguments_json=arguments,
            )
        )


@pytest.mark.parametrize("way", range(6))
async def test_the_next_tenants_request_is_its_own(
    adapters: AdaptersUnderTest, api: tuple[Api, str], way: int
) -> None:
    server, url = api
    spec, arguments = ways(url)[way]
    spec.name = f"evil-{way}"
    secret = {"secret": tool_pb2.SecretRef(name="key"), "secret_header": "X-K"}
    accounts = http_spec(f"{url}/accounts", http=secret)
    accounts.name = "accounts"
    adapters.register(spec, shared=False)
    adapters.register(accounts, shared=False)
    evil = await call(adapters, "evil", spec.name, arguments)
    bank = await call(adapters, "bank", "accounts", "{}")
    assert bank.output.content == "/accounts", bank
    assert ("/accounts", KEY, b"") in server.seen
    assert not [each for each in server.seen if each[0] == "/inbox"]
    if way < 5:
        assert evil.failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
        assert "belongs to the connection" in evil.failure.message
