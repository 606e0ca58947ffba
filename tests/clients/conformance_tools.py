"""An MCP server over standard streams with the tools that MCP's conformance suite calls.

They become tools of the platform, as those of any server do.
"""

import asyncio
import base64
import struct
import zlib
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
KEYWORDS: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def red_pixel() -> bytes:
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0\xff\0\0")
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def silence() -> bytes:
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    return b"RIFF" + struct.pack("<I", 36) + b"WAVE" + form + struct.pack("<4sI", b"data", 0)


def text(content: str) -> types.TextContent:
    return types.TextContent(type="text", text=content)


def plain(data: bytes) -> str:
    return base64.b64encode(data).decode()


ANSWERS: dict[str, types.ContentBlock] = {
    "test_simple_text": text("This is a simple text response for testing."),
    "test_image_content": types.ImageContent(
        type="image", data=plain(red_pixel()), mime_type="image/png"
    ),
    "test_audio_content": types.AudioContent(
        type="audio", data=plain(silence()), mime_type="audio/wav"
    ),
    "test_error_handling": text("This tool intentionally returns an error for testing"),
    "json_schema_2020_12_tool": text("fits"),
}


def described(name: str) -> types.Tool:
    return types.Tool(
        name=name,
        description=f"Answers for the conformance suite's {name}.",
        input_schema=KEYWORDS if name == "json_schema_2020_12_tool" else NOTHING,
        annotations=types.ToolAnnotations(read_only_hint=True),
    )


async def listed(_context: Any, _params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[described(name) for name in ANSWERS])


async def called(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    failed = params.name == "test_error_handling"
    return types.CallToolResult(content=[ANSWERS[params.name]], is_error=failed)


async def main() -> None:
    server: Server[Any] = Server("conformance", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
