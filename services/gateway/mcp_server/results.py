import base64
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp import types
from mcp.shared.exceptions import MCPError

from gateway.errors import UpstreamFault
from gateway.mcp_server.models import ToolFile, ToolResult
from podium_kit.money import Money
from podium_kit.rpc.errors import DomainError, message_of

log = logging.getLogger(__name__)


@contextmanager
def in_its_words() -> Iterator[None]:
    """The library answers with the text of what it does not know, be it a database's statement."""
    try:
        yield
    except MCPError:
        raise
    except DomainError as error:
        raise MCPError(types.INTERNAL_ERROR, error.message) from error
    except Exception as error:
        log.exception("an MCP client's request failed: %s", message_of(error))
        raise MCPError(types.INTERNAL_ERROR, UpstreamFault().message) from error


MESSAGE_CHARACTERS_MAX = 4_000


def failed(message: str, meta: dict[str, Any] | None = None) -> types.CallToolResult:
    text = message[:MESSAGE_CHARACTERS_MAX]
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=True, _meta=meta
    )


def call_result(result: ToolResult) -> types.CallToolResult:
    meta = {"podium": _podium(result)}
    if result.failure is not None:
        return failed(result.failure.message, meta)
    parts: list[types.ContentBlock] = [types.TextContent(type="text", text=result.content)]
    parts += [_file(result.call_id, each) for each in result.files]
    return types.CallToolResult(
        content=parts, structured_content=_structured(result.content_json), _meta=meta
    )


def money(amount: Money | None) -> dict[str, str] | None:
    if amount is None:
        return None
    return {"amount": amount.amount_string(), "currency_code": amount.currency_code}


def _structured(content_json: str) -> dict[str, Any] | None:
    """The content where it is an object: earlier versions of the protocol take no other."""
    content = json.loads(content_json or "null")
    return content if isinstance(content, dict) else None


def _file(call_id: str, file: ToolFile) -> types.ContentBlock:
    data = base64.b64encode(file.data).decode()
    kind = file.media_type.partition("/")[0]
    if kind == "image":
        return types.ImageContent(type="image", data=data, mime_type=file.media_type)
    if kind == "audio":
        return types.AudioContent(type="audio", data=data, mime_type=file.media_type)
    resource = types.BlobResourceContents(
        uri=f"podium://direct-calls/{call_id}/{file.name}", mime_type=file.media_type, blob=data
    )
    return types.EmbeddedResource(type="resource", resource=resource)


def _podium(result: ToolResult) -> dict[str, Any]:
    """A cost of null is unknown, not zero."""
    return {
        "call_id": result.call_id,
        "cost": money(result.cost),
        "usage": {each.value: f"{amount:f}" for each, amount in result.tally.items()},
        "tool_version": result.tool_version,
        "policy": {"name": result.policy_name, "version": result.policy_version},
        "failure": result.failure and result.failure.kind.name,
    }
