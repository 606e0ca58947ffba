"""Reading an OpenAPI document, through the gateway, for its operations."""

from pathlib import Path
from urllib.parse import urlsplit

import httpx

from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_cli.errors import UsageError
from podium_cli.gateway import Gateway
from podium_cli.inputs import unreadable

TIMEOUT_S = 30.0


async def read_openapi(
    gateway: Gateway, document: str, request: pb.ReadOpenApiRequest
) -> pb.ReadOpenApiResponse:
    """Specs ready to be registered, and what was left out. Raises UsageError, Refused."""
    fetched = urlsplit(document).scheme in ("http", "https")
    request.document = await _fetched(document) if fetched else _text(Path(document))
    return await gateway.post("/v1/tools/read-openapi", request, pb.ReadOpenApiResponse)


async def _fetched(url: str) -> str:
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=True) as client:
            reply = await client.get(url)
            reply.raise_for_status()
    except httpx.HTTPError as error:
        raise UsageError(f"{url} cannot be fetched: {error}", "check the URL") from error
    return reply.text


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(unreadable(path, error), "check the path") from error
