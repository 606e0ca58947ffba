import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from embedded_servers import Database
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.test_forbidden_addresses import specs
from integration.tool_adapters.web_server import WebServer
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2

CLOSED = "the address is not public"


@pytest_asyncio.fixture
async def adapters(database: Database, tmp_path: Path) -> AsyncIterator[AdaptersUnderTest]:
    async with (
        running_registry() as registry,
        run_adapters(
            await database("tool_adapters"),
            tmp_path,
            registry,
            allowed_hosts=frozenset({"acme/127.0.0.1"}),
        ) as running,
    ):
        yield running


@pytest.mark.parametrize("place", range(4), ids=["http", "mcp", "llm", "grpc"])
async def test_the_same_tool_of_two_tenants_reaches_it_for_one(
    adapters: AdaptersUnderTest, web: WebServer, place: int
) -> None:
    spec = specs(f"127.0.0.1:{urlsplit(web.url).port}")[place]
    request = pb.InvokeRequest(
        key="episode/1/tool/0",
        episode_id="episode",
        tool_name=adapters.register(spec, shared=False),
        tool_version=1,
        arguments_json=json.dumps({}),
        model_alias=next((each.alias for each in spec.connection.llm.models), ""),
        task="Hello?",
    )
    # What acme's call leaves open is nothing that the other's call may use.
    for tenant in ("acme", "globex", "acme", "globex"):
        async with adapters.as_caller(tenant) as stub:
            failure = (await stub.Invoke(request)).failure
        if tenant == "acme":
            assert CLOSED not in failure.message
        else:
            assert failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
            assert CLOSED in failure.message
            assert "tenant/host in TOOL_ADAPTERS_ALLOWED_HOSTS" in failure.message
