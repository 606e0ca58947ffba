"""`python -m openapi_documents`: real OpenAPI documents, read as an import reads them.

Prints how many operations of each become tools, and why the others do not; ends with status 1
where fewer than 98 % of all do.
"""

import asyncio
import sys
import time
from collections import Counter
from dataclasses import dataclass

from openapi_documents.packages import DOCUMENTS, Published
from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from tool_registry.tools.checks import check_parameters_schema
from tool_registry.tools.convert_openapi import read_openapi

SHARE_MIN = 0.98
REASONS_SHOWN = 5


@dataclass(frozen=True)
class Read:
    specs: int
    skipped: tuple[str, ...]
    size_bytes: int
    cpu_s: float

    @property
    def operations(self) -> int:
        return self.specs + len(self.skipped)


async def main() -> int:
    found = {document.name: await _read(document) for document in DOCUMENTS}
    print(f"{'document':26} {'MB':>6} {'operations':>10} {'tools':>6} {'CPU s':>6}")
    for name, read in found.items():
        size = f"{read.size_bytes / 1e6:.1f}"
        print(f"{name:26} {size:>6} {read.operations:>10} {read.specs:>6} {read.cpu_s:>6.1f}")
        for reason, count in Counter(read.skipped).most_common(REASONS_SHOWN):
            print(f"  {count} left out: {reason}")
    operations = sum(read.operations for read in found.values())
    share = sum(read.specs for read in found.values()) / operations
    print(f"{share:.2%} of {operations} operations in {len(found)} documents")
    return int(share < SHARE_MIN)


async def _read(document: Published) -> Read:
    text = await document.text()
    request = pb.ReadOpenApiRequest(
        document=text,
        base_url="https://api.example",
        # As an import for a caller of whom everything is known.
        secret=tool_pb2.SecretRef(name="key"),
        username="ada",
        client_id="podium",
    )
    started = time.process_time()
    reply = read_openapi(request)
    cpu_s = time.process_time() - started
    for spec in reply.specs:
        # As registering does.
        check_parameters_schema(spec.parameters_json_schema)
    reasons = tuple(each.reason for each in reply.skipped)
    return Read(len(reply.specs), reasons, len(text.encode()), cpu_s)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
