"""Results of MCP tools: texts as they are, and everything else named.

An orchestrator reads texts. Of what it cannot see it reads what it is and where: pictures, sound
and other bytes are kept as files, links are for another tool to follow.
"""

import base64
import binascii
import json
import mimetypes
from collections.abc import Iterator

import mcp_types

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import Output, OutputFile
from tool_adapters.http.client import too_many_bytes

WORDS_MAX = 300


def outcome_of(result: mcp_types.CallToolResult, bytes_max: int) -> Output | ToolFailure:
    structured = result.structured_content
    content_json = "" if structured is None else json.dumps(structured, ensure_ascii=False)
    # The texts beside it may be others, so their size says nothing about it.
    if len(content_json.encode()) > bytes_max:
        return too_many_bytes(bytes_max).failure
    read = [_read(number, block) for number, block in enumerate(result.content)]
    has_text = any(isinstance(block, mcp_types.TextContent) for block in result.content)
    texts = [text for text, _ in read]
    # Beside what is only named the structured form is the text.
    content = "\n".join(([] if has_text or not content_json else [content_json]) + texts)
    if result.is_error:
        return ToolFailure(FailureKind.TOOL_ERROR, content or "the tool says only that it failed")
    return Output(content, content_json, tuple(file for _, file in read if file is not None))


def _read(number: int, block: mcp_types.ContentBlock) -> tuple[str, OutputFile | None]:
    """A block's text, or its name with the file that it is kept as."""
    match block:
        case mcp_types.TextContent():
            return block.text, None
        case mcp_types.ResourceLink():
            return _link(block), None
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            return _kept(number, block.type, "", block.mime_type, block.data)
        case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents() as inner):
            return f"(resource {inner.uri[:WORDS_MAX]})\n{inner.text}", None
        case mcp_types.EmbeddedResource(resource=mcp_types.BlobResourceContents() as inner):
            media_type = inner.mime_type or "application/octet-stream"
            return _kept(number, "resource", inner.uri, media_type, inner.blob)
    return f"({str(getattr(block, 'type', 'part'))[:WORDS_MAX]}: not shown)", None


def _link(block: mcp_types.ResourceLink) -> str:
    size = f"{block.size} bytes" if block.size is not None else ""
    words = ", ".join(filter(None, (block.mime_type, size, block.description)))
    shown = f" ({words[:WORDS_MAX]})" if words else ""
    return f"{block.name}: {block.uri}{shown}; only linked, its content is not here"


def _kept(
    number: int, kind: str, uri: str, media_type: str, data: str
) -> tuple[str, OutputFile | None]:
    what = " ".join(filter(None, (kind, uri[:WORDS_MAX], f"of type {media_type[:WORDS_MAX]}")))
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"({what}: left out, for it is not base64)", None
    name = f"{number}{mimetypes.guess_extension(media_type) or ''}"
    words = f"({what}, {len(content)} bytes: no text, kept as the file {name})"
    return words, OutputFile(name, media_type, content)


def readable_content(blocks: object) -> Iterator[dict[str, object]]:
    for block in blocks if isinstance(blocks, list) else ():
        try:
            mcp_types.CallToolResult.model_validate({"content": [block]}, by_name=False)
        except ValueError:
            yield {"type": "text", "text": _unread(block)}
        else:
            yield block


def _unread(block: object) -> str:
    if isinstance(block, str):
        return block
    fields = block if isinstance(block, dict) else {}
    if isinstance(fields.get("text"), str):
        return str(fields["text"])
    kind, uri = str(fields.get("type", "nothing known")), str(fields.get("uri", ""))
    words = " ".join(filter(None, (kind[:WORDS_MAX], uri[:WORDS_MAX])))
    return f"(a part of type {words} that the protocol does not have is left out)"
