import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path
from string import Template
from typing import Any

import yaml
from google.protobuf import json_format

from podium.adapters.v1 import tool_adapter_service_pb2
from podium.ledger.v1 import price_book_service_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.gateway import Gateway
from podium_operations.bootstrap.bundled_contents import (
    BundledTools,
    add_missing_prices,
    bundled_prices,
    bundled_tools,
    put_library,
)
from podium_operations.documents import read_message
from podium_operations.local.platform import Report
from podium_operations.local.services import ENGINE_SECRET, Engine
from podium_operations.local.state import write_private

LLM_TEMPLATE = "ask_llm.yaml"


class SpecsFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> dict[str, dict[str, Any]]:
        found = json.loads(self._path.read_text()) if self._path.exists() else {}
        return dict(found)

    async def write(self, specs: dict[str, dict[str, Any]]) -> None:
        write_private(self._path, json.dumps(specs))


class Bootstrap:
    def __init__(
        self, gateway: Gateway, engine: Engine, registered_tools_file: Path, report: Report
    ) -> None:
        self._gateway = gateway
        self._engine = engine
        self._report = report
        self._bundled_tools = BundledTools(gateway, SpecsFile(registered_tools_file))
        self._folder = bundled_folder()

    async def run(self) -> None:
        # Prices first: a tool's terms quote them.
        await self._step("prices", add_missing_prices(self._gateway, bundled_prices()))
        await asyncio.gather(
            self._step("bundled tools", self._tools()),
            self._step("library", put_library(self._gateway, {})),
            self._step("MCP tools", self._mcp_tools()),
        )

    async def _step(self, title: str, work: Awaitable[object]) -> None:
        self._report(title, False)
        await work
        self._report(title, True)

    async def _tools(self) -> None:
        # The bundled model is no expert for itself.
        experts = [] if self._engine.is_bundled else [self._llm_tool()]
        await self._bundled_tools.register([*bundled_tools(), *experts])

    def _llm_tool(self) -> tool_pb2.ToolSpec:
        path = self._folder / "tool_templates" / LLM_TEMPLATE
        text = Template(path.read_text()).safe_substitute(
            ASK_LLM_BASE_URL=self._engine.base_url,
            ASK_LLM_MODEL=self._engine.model,
            ASK_LLM_SKU=f"llm/{self._engine.model}",
            ASK_LLM_PROVIDER="local",
        )
        tool = read_message(path, text, tool_pb2.ToolSpec)
        if self._engine.api_key:
            for model in tool.connection.llm.models:
                model.secret.name = ENGINE_SECRET
        return tool

    async def _mcp_tools(self) -> None:
        for path in sorted((self._folder / "mcp").glob("*.yaml")):
            server = yaml.safe_load(path.read_text())
            price = json_format.ParseDict(server.pop("price"), price_book_service_pb2.PriceSpec())
            await add_missing_prices(self._gateway, [price])
            found = await self._gateway.post(
                "/v1/tools/discover-mcp", server, tool_adapter_service_pb2.DiscoverMcpToolsResponse
            )
            for spec in found.specs:
                spec.sku = price.sku
            await self._bundled_tools.register(found.specs)
