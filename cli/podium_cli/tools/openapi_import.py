from pathlib import Path
from urllib.parse import urlsplit

import httpx

from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.client.errors import UnreadableFile, UsageError
from podium_kit.client.gateway import Gateway

TIMEOUT_S = 30.0
# The largest document the registry reads.
DOCUMENT_BYTES_MAX = 20 * 1024 * 1024
# Unpacked a document may be a thousand times as large.
NOT_PACKED = {"accept-encoding": "identity"}


async def read_openapi(
    gateway: Gateway, document: str, request: pb.ReadOpenApiRequest
) -> pb.ReadOpenApiResponse:
    """Specs ready to be registered, and what was left out. Raises UsageError, Rejected."""
    fetched = urlsplit(document).scheme in ("http", "https")
    if fetched:
        request.document, request.document_url = await _fetched(document), document
    else:
        request.document = _text(Path(document))
    return await gateway.post("/v1/tools/read-openapi", request, pb.ReadOpenApiResponse)


async def _fetched(url: str) -> str:
    content = bytearray()
    try:
        async with (
            httpx.AsyncClient(
                timeout=TIMEOUT_S, follow_redirects=True, headers=NOT_PACKED
            ) as client,
            client.stream("GET", url) as reply,
        ):
            reply.raise_for_status()
            async for chunk in reply.aiter_raw():
                content += chunk
                if len(content) > DOCUMENT_BYTES_MAX:
                    raise UsageError(f"{url} is larger than 20 MiB", "import a part of it")
        return content.decode()
    except (httpx.HTTPError, UnicodeDecodeError) as error:
        raise UsageError(f"{url} cannot be fetched: {error}", "check the URL") from error


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(path, error, "check the path") from error
