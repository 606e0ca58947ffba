"""The adapters behind a real channel, and a registry that knows the tools of a test."""

import asyncio
import json
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from callers import (
    KeyPair,
    client_channel,
    make_identity,
    make_key_pair,
    write_verify_keys,
)
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.adapters.v1.tool_adapter_service_pb2_grpc import ToolAdapterServiceStub
from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from podium.registry.v1 import tool_registry_service_pb2_grpc as registry_rpc
from podium_kit.embedded.process import ManagedProcess
from podium_kit.rpc.identity import Scope
from podium_kit.rpc.server import running_server
from podium_kit.rpc.settings import SigningKey
from tool_adapters.config import ToolAdaptersSettings
from tool_adapters.server import assembled

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.adapters.v1.tool_adapter_service_pb2_grpc import ToolAdapterServiceAsyncStub

Context = grpc.aio.ServicerContext[Any, Any]


class RegistryOf(registry_rpc.ToolRegistryServiceServicer):
    def __init__(self) -> None:
        self.tools: dict[str, tool_pb2.Tool] = {}
        self.fetches = 0
        self.facts: defaultdict[str, list[tool_pb2.ToolFacts]] = defaultdict(list)
        self.port = 0

    async def GetTool(
        self, request: registry_pb.GetToolRequest, context: Context
    ) -> registry_pb.GetToolResponse:
        self.fetches += 1
        if request.name not in self.tools:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no tool {request.name}")
        return registry_pb.GetToolResponse(tool=self.tools[request.name])

    async def ListTools(
        self, request: registry_pb.ListToolsRequest, context: Context
    ) -> registry_pb.ListToolsResponse:
        tools = [tool for tool in self.tools.values() if tool.spec.kind in request.kinds]
        return registry_pb.ListToolsResponse(tools=tools)

    async def RecordToolFacts(
        self, request: registry_pb.RecordToolFactsRequest, context: Context
    ) -> registry_pb.RecordToolFactsResponse:
        self.facts[request.reporter] = list(request.facts)
        return registry_pb.RecordToolFactsResponse()

    async def facts_of(self, tool_name: str) -> list[tool_pb2.ToolFacts]:
        while True:
            reported = [entry for facts in self.facts.values() for entry in facts]
            if found := [entry for entry in reported if entry.tool_name == tool_name]:
                return found
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running_registry() -> AsyncIterator[RegistryOf]:
    registry = RegistryOf()  # type: ignore[abstract]
    server = grpc.aio.server()
    registry_rpc.add_ToolRegistryServiceServicer_to_server(registry, server)
    registry.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield registry
    await server.stop(0)


@dataclass
class AdaptersUnderTest:
    port: int
    keys: KeyPair
    registry: RegistryOf
    stub: "ToolAdapterServiceAsyncStub"
    # Definitions of MCP servers.
    mcp_servers: Path
    _numbers: "count[int]" = field(default_factory=count)

    def register(self, spec: tool_pb2.ToolSpec, *, shared: bool = True) -> str:
        self.registry.tools[spec.name] = tool_pb2.Tool(spec=spec, version=1, shared=shared)
        return spec.name

    async def call(
        self, tool: str, arguments: dict[str, Any] | str | None = None, **fields: Any
    ) -> pb.InvokeResponse:
        """The answer of one call, under a new key unless the test gives one, by the tool's first
        model unless the test names another.
        """
        if known := self.registry.tools.get(tool):
            models = known.spec.connection.llm.models
            if models and not (isinstance(arguments, dict) and "model" in arguments):
                fields.setdefault("model_alias", models[0].alias)
        given = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        request = {"key": f"episode/0/tool/{next(self._numbers)}", "episode_id": "episode"}
        return await self.stub.Invoke(
            pb.InvokeRequest(
                tool_name=tool, tool_version=1, arguments_json=given, **(request | fields)
            )
        )

    @asynccontextmanager
    async def as_caller(
        self, tenant: str = "acme", scope: Scope = Scope.TENANT_ADMIN
    ) -> AsyncIterator["ToolAdapterServiceAsyncStub"]:
        identity = make_identity(tenant=tenant, scopes=[scope])
        async with client_channel(self.port, identity, self.keys) as channel:
            yield ToolAdapterServiceStub(channel)


@asynccontextmanager
async def run_adapters(
    database_url: str, folder: Path, registry: RegistryOf, **settings: Any
) -> AsyncIterator[AdaptersUnderTest]:
    keys = make_key_pair()
    private_key_file = folder / "signing.pem"
    private_key_file.write_text(keys.private_pem)
    configured = ToolAdaptersSettings(
        port=0,
        database_url=database_url,
        verify_keys_file=write_verify_keys(folder / "keys.json", [keys]),
        tool_registry_target=f"127.0.0.1:{registry.port}",
        signing_key=SigningKey(key_id=keys.key_id, private_key_file=private_key_file),
        mcp_servers_folder=folder / "mcp-servers",
        warm_sandboxes=0,
        drain_grace_s=0.0,
        **settings,
    )
    async with (
        assembled(configured) as served,
        running_server(configured, *served) as port,
        client_channel(port, make_identity(), keys) as channel,
    ):
        stub = ToolAdapterServiceStub(channel)
        yield AdaptersUnderTest(port, keys, registry, stub, folder / "mcp-servers")


def adapters_process(
    folder: Path,
    port: int,
    registry_port: int,
    database_url: str,
    keys: KeyPair,
    settings: Mapping[str, str] | None = None,
) -> ManagedProcess:
    (folder / "signing.pem").write_text(keys.private_pem)
    needed = {
        "PORT": str(port),
        "DATABASE_URL": database_url,
        "VERIFY_KEYS_FILE": str(write_verify_keys(folder / "keys.json", [keys])),
        "TOOL_REGISTRY_TARGET": f"127.0.0.1:{registry_port}",
        "SIGNING_KEY__KEY_ID": keys.key_id,
        "SIGNING_KEY__PRIVATE_KEY_FILE": str(folder / "signing.pem"),
        "MCP_SERVERS_FOLDER": str(folder / "mcp-servers"),
    }
    environment = needed | dict(settings or {})
    return ManagedProcess(
        "tool_adapters",
        [sys.executable, "-m", "tool_adapters"],
        log_path=folder / "adapters.log",
        # Ours as well: it says where the code under test lies.
        env=os.environ | {f"TOOL_ADAPTERS_{name}": value for name, value in environment.items()},
    )
