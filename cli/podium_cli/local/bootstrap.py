"""What a fresh platform is given: prices, tools, a corpus, an MCP server's tools.

Every step may be repeated. It keeps changes that users made, except to documents of the library.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

import yaml
from google.protobuf import json_format

from podium.adapters.v1 import corpus_service_pb2, tool_adapter_service_pb2
from podium.ledger.v1 import price_book_service_pb2
from podium.registry.v1 import tool_pb2
from podium_cli.documents.documents import read_message, read_messages
from podium_cli.local.bundled_tools import BundledTools
from podium_cli.local.platform import Report
from podium_cli.local.services import ENGINE_SECRET, Engine
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.gateway import Gateway, segment

DOCUMENTS_PER_REQUEST = 200
LLM_TEMPLATE = "ask_llm.yaml"


class Bootstrap:
    """Fills the platform through its own public API, as its administrator."""

    def __init__(
        self, gateway: Gateway, engine: Engine, registered_tools_file: Path, report: Report
    ) -> None:
        self._gateway = gateway
        self._engine = engine
        self._report = report
        self._bundled_tools = BundledTools(gateway, registered_tools_file)
        self._folder = bundled_folder()

    async def run(self) -> None:
        """Raises Rejected when the platform does not take its own files."""
        # Prices first: a tool's terms quote them.
        await self._step("prices", self._prices())
        await asyncio.gather(
            self._step("bundled tools", self._tools()),
            self._step("library", self._corpora()),
            self._step("MCP tools", self._mcp_tools()),
        )

    async def _step(self, title: str, work: Any) -> None:
        self._report(title, False)
        await work
        self._report(title, True)

    async def _prices(self) -> None:
        read = read_messages(self._folder / "prices.yaml", price_book_service_pb2.PriceSpec)
        await self._price([spec for _, spec in read])

    async def _price(self, specs: list[price_book_service_pb2.PriceSpec]) -> None:
        """Creates missing list prices; existing ones stay as they are."""
        listed = await self._gateway.all("/v1/prices", price_book_service_pb2.ListPricesResponse)
        known = {each.spec.sku for each in listed.prices if not each.spec.tenant}
        if new := [spec for spec in specs if spec.sku not in known]:
            await self._gateway.post(
                "/v1/prices",
                price_book_service_pb2.CreatePricesRequest(specs=new),
                price_book_service_pb2.CreatePricesResponse,
            )

    async def _tools(self) -> None:
        found = [spec for _, spec in read_messages(self._folder / "tools", tool_pb2.ToolSpec)]
        # The bundled model is no expert for itself.
        experts = [] if self._engine.is_bundled else [self._llm_tool()]
        await self._bundled_tools.register([*found, *experts])

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

    async def _corpora(self) -> None:
        for path in sorted((self._folder / "corpus").glob("*.jsonl")):
            for documents in _chunks(path):
                await self._gateway.put(
                    f"/v1/corpora/{segment(path.stem)}/documents",
                    {"documents": documents, "shared": True},
                    corpus_service_pb2.PutDocumentsResponse,
                )

    async def _mcp_tools(self) -> None:
        for path in sorted((self._folder / "mcp").glob("*.yaml")):
            server = yaml.safe_load(path.read_text())
            price = json_format.ParseDict(server.pop("price"), price_book_service_pb2.PriceSpec())
            await self._price([price])
            found = await self._gateway.post(
                "/v1/tools/discover-mcp", server, tool_adapter_service_pb2.DiscoverMcpToolsResponse
            )
            for spec in found.specs:
                spec.sku = price.sku
            await self._bundled_tools.register(found.specs)


def _chunks(path: Path) -> Iterator[list[dict[str, Any]]]:
    documents = [json.loads(line) for line in path.read_text().splitlines()]
    for start in range(0, len(documents), DOCUMENTS_PER_REQUEST):
        yield documents[start : start + DOCUMENTS_PER_REQUEST]
