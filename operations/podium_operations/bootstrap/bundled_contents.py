"""The prices, tools and documents bundled with Podium, given to a platform by its administrator.

Every step may be repeated. It keeps changes that users made, except to documents of the library.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from podium.adapters.v1 import corpus_service_pb2
from podium.ledger.v1 import price_book_service_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.gateway import Gateway, segment
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
