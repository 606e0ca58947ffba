"""The prices, tools and documents bundled with Podium, given to a platform by its administrator.

Every step may be repeated. It keeps changes that users made, except to documents of the library.
"""

import asyncio
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from google.protobuf import json_format

from podium.adapters.v1 import corpus_service_pb2
from podium.ledger.v1 import price_book_service_pb2
from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.gateway import Gateway, segment
from podium_kit.wire import json_values
from podium_operations.documents import read_messages

DOCUMENTS_PER_REQUEST = 200


def bundled_prices() -> list[price_book_service_pb2.PriceSpec]:
    path = bundled_folder() / "prices.yaml"
    return [spec for _, spec in read_messages(path, price_book_service_pb2.PriceSpec)]


def bundled_tools() -> list[tool_pb2.ToolSpec]:
    return [spec for _, spec in read_messages(bundled_folder() / "tools", tool_pb2.ToolSpec)]


async def add_missing_prices(
    gateway: Gateway, specs: Sequence[price_book_service_pb2.PriceSpec]
) -> list[str]:
    """Creates missing list prices and names their SKUs; existing ones stay as they are."""
    listed = await gateway.all("/v1/prices", price_book_service_pb2.ListPricesResponse)
    known = {each.spec.sku for each in listed.prices if not each.spec.tenant}
    new = [spec for spec in specs if spec.sku not in known]
    if new:
        await gateway.post(
            "/v1/prices",
            price_book_service_pb2.CreatePricesRequest(specs=new),
            price_book_service_pb2.CreatePricesResponse,
        )
    return [spec.sku for spec in new]


async def put_library(gateway: Gateway, known: Mapping[str, str]) -> dict[str, str]:
    """Puts every corpus whose file's digest is not known; returns the digests of these."""
    put = {}
    for path in sorted((bundled_folder() / "corpus").glob("*.jsonl")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if known.get(path.stem) == digest:
            continue
        for documents in _chunks(path):
            await gateway.put(
                f"/v1/corpora/{segment(path.stem)}/documents",
                {"documents": documents, "shared": True},
                corpus_service_pb2.PutDocumentsResponse,
            )
        put[path.stem] = digest
    return put


def _chunks(path: Path) -> Iterator[list[dict[str, Any]]]:
    documents = [json.loads(line) for line in path.read_text().splitlines()]
    for start in range(0, len(documents), DOCUMENTS_PER_REQUEST):
        yield documents[start : start + DOCUMENTS_PER_REQUEST]


Values = dict[str, Any]
# In place of a spec: no user deprecated the tool.
DEPRECATED_HERE: Values = {}


class RegisteredSpecs(Protocol):
    async def read(self) -> dict[str, Values]: ...
    async def write(self, specs: dict[str, Values]) -> None: ...


class BundledTools:
    """Registers the tools of the files, which may be newer at every start, or name another engine.

    A field that no user changed follows the file, a changed one stays, and so does the deprecation
    or deletion of a tool.
    """

    def __init__(self, gateway: Gateway, kept: RegisteredSpecs) -> None:
        self._gateway = gateway
        self._kept = kept
        self._last: dict[str, Values] | None = None

    async def register(self, specs: Sequence[tool_pb2.ToolSpec]) -> list[str]:
        last = await self._registered_last()
        registered = await self._registered()
        found = [self._wanted(spec, last.get(spec.name), registered) for spec in specs]
        wanted = [values for values in found if values]
        await asyncio.gather(*(self._register(values) for values in wanted))
        new = {spec.name: json_values(spec) for spec in specs}
        if any(last.get(name) != values for name, values in new.items()):
            last |= new
            await self._kept.write(last)
        return [str(values["name"]) for values in wanted]

    async def deprecate_other(self, tag: str, names: Collection[str]) -> list[str]:
        """Deprecates what was registered with a tag and is not named, and returns its names.

        Such a tool may be registered anew later.
        """
        last = await self._registered_last()
        gone = [
            name
            for name, values in last.items()
            if tag in values.get("tags", ()) and name not in names
        ]
        registered = await self._registered() if gone else {}
        for name in gone:
            tool = registered.get(name)
            if tool and not tool.HasField("deprecate_time"):
                await self._gateway.post(
                    f"/v1/tools/{segment(name)}/deprecate",
                    {},
                    tool_registry_service_pb2.DeprecateToolResponse,
                )
        if gone:
            last |= dict.fromkeys(gone, DEPRECATED_HERE)
            await self._kept.write(last)
        return gone

    async def _registered_last(self) -> dict[str, Values]:
        if self._last is None:
            # Two calls at once may both read, and neither may forget what the other wrote.
            kept = await self._kept.read()
            self._last = kept if self._last is None else self._last
        return self._last

    def _wanted(
        self, spec: tool_pb2.ToolSpec, last: Values | None, registered: dict[str, tool_pb2.Tool]
    ) -> Values | None:
        """Returns the spec to register; None for a tool that stays as it is, or disabled."""
        new, known = json_values(spec), registered.get(spec.name)
        if known is None:
            # Registered before and missing now: a user deleted it.
            return None if last else new
        if known.HasField("deprecate_time"):
            return new if last == DEPRECATED_HERE else None
        current = json_values(known.spec)
        merged = _merged(_upgraded(last) if last else new, new, current)
        return None if merged == current else merged

    async def _registered(self) -> dict[str, tool_pb2.Tool]:
        """The newest version of every tool, deprecated or not."""
        listed = await self._gateway.all(
            "/v1/tools", tool_registry_service_pb2.ListToolsResponse, include_deprecated="true"
        )
        return {tool.spec.name: tool for tool in listed.tools}

    async def _register(self, spec: Values) -> None:
        await self._gateway.post(
            "/v1/tools",
            {"spec": spec, "shared": True},
            tool_registry_service_pb2.RegisterToolResponse,
        )


def _merged(last: Values, new: Values, current: Values) -> Values:
    """The new fields, except those that were changed since they were last registered."""
    merged = {
        field: (new if current.get(field) == last.get(field) else current).get(field)
        for field in new.keys() | current.keys()
    }
    return {field: value for field, value in merged.items() if value is not None}


def _upgraded(last: Values) -> Values:
    """A spec that an older Podium wrote, with today's fields."""
    return json_values(json_format.ParseDict(last, tool_pb2.ToolSpec(), ignore_unknown_fields=True))
