"""Messages of MCP servers, of which one wrong part does not make the rest unreadable.

The SDK reads a list of tools whole or not at all. Here every tool of it is read by itself: what
can be understood is put right, and what cannot is left out and named.
"""

import codecs
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import mcp_types
from pydantic import ValidationError

from podium_kit.limits.json_cost import require_bounded_json
from podium_kit.text import whole_characters
from tool_adapters.mcp.results import readable_content

OWN_META = "podium/"
SKIPPED, INPUT_TYPE, OUTPUT_SCHEMA = "podium/skipped", "podium/type", "podium/outputSchema"
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
NAME_CHARACTERS_SHOWN = 100
OBJECT = {"type": "object"}
_HALF_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class SkippedTool:
    """A listed tool that cannot be called, by its name or its place, and why."""

    name: str
    reason: str


def read_message(text: str | bytes, *, by_name: bool = False) -> mcp_types.JSONRPCMessage:
    """Raises CostlyJson for a message of too many values, and ValidationError."""
    body = text.encode() if isinstance(text, str) else text
    # A byte-order mark says nothing in UTF-8, and there are servers that begin with it.
    body = body.removeprefix(codecs.BOM_UTF8)
    require_bounded_json(body)
    if _HALF_ESCAPED.search(body):
        # JavaScript cuts texts within a character; the parser reads no such message.
        with suppress(ValueError):
            body = whole_characters(json.dumps(json.loads(body), ensure_ascii=False)).encode()
    message = mcp_types.jsonrpc_message_adapter.validate_json(body, by_name=by_name)
    if isinstance(message, mcp_types.JSONRPCResponse):
        if isinstance(message.result.get("tools"), list):
            message.result = _readable_list(message.result)
        elif _is_result(message.result):
            message.result = _readable_result(message.result)
    return message


def skipped_tools(page: mcp_types.ListToolsResult) -> Iterator[SkippedTool]:
    for name, reason in (page.meta or {}).get(SKIPPED, ()):
        yield SkippedTool(name, reason)


def input_schema(tool: mcp_types.Tool) -> dict[str, Any]:
    meta = tool.meta or {}
    own = {"type": meta[INPUT_TYPE]} if INPUT_TYPE in meta else {}
    return {**tool.input_schema, **own}


def output_schema(tool: mcp_types.Tool) -> Any:
    return (tool.meta or {}).get(OUTPUT_SCHEMA)


def _readable_list(result: dict[str, Any]) -> dict[str, Any]:
    tools: list[dict[str, Any]] = []
    skipped: list[tuple[str, str]] = []
    for number, written in enumerate(result["tools"]):
        tool = _readable_tool(written)
        try:
            mcp_types.Tool.model_validate(tool, by_name=False)
            tools.append(tool)
        except ValidationError as error:
            # Without what was found there: it may repeat a credential.
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            named = written.get("name") if isinstance(written, dict) else None
            name = named[:NAME_CHARACTERS_SHOWN] if isinstance(named, str) and named else ""
            skipped.append((name or f"tools[{number}]", f"{place}: {first['msg']}".lstrip(": ")))
    meta = result.get("_meta")
    kept = {**(meta if isinstance(meta, dict) else {}), SKIPPED: skipped}
    cursor = result.get("nextCursor")
    result = {**result, "tools": tools, "_meta": kept}
    if cursor is not None and not isinstance(cursor, str):
        # A number is a cursor as well; anything else names no page.
        named_page = isinstance(cursor, int) and not isinstance(cursor, bool)
        result |= {"nextCursor": str(cursor) if named_page else ""}
    return result


def _is_result(result: dict[str, Any]) -> bool:
    content = result.get("content")
    return isinstance(content, list) or (content is None and "structuredContent" in result)


def _readable_result(result: dict[str, Any]) -> dict[str, Any]:
    """The structured form of a result may be any value."""
    content = list(readable_content(result.get("content")))
    structured = result.get("structuredContent")
    kept = {**result, "content": content}
    if not isinstance(structured, dict):
        kept.pop("structuredContent", None)
        if structured is not None and not content:
            kept["content"] = [{"type": "text", "text": json.dumps(structured)}]
    if not isinstance(result.get("isError", False), bool):
        kept["isError"] = bool(result["isError"])
    return kept


def _readable_tool(written: Any) -> Any:
    """The tool as the protocol writes it, as far as it can be understood."""
    if not isinstance(written, dict):
        return written
    tool = {
        name: written[name]
        for name in ("name", "title", "description")
        if isinstance(written.get(name), str)
    }
    if tool.get("name") == "":
        del tool["name"]
    hints = written.get("annotations")
    if isinstance(hints, dict):
        flags = {name: hints[name] for name in HINTS if isinstance(hints.get(name), bool)}
        tool["annotations"] = flags
    given = written.get("_meta")
    # Names of ours are not the server's to set.
    meta = {
        name: value
        for name, value in (given if isinstance(given, dict) else {}).items()
        if not str(name).startswith(OWN_META)
    }
    schema = written.get("inputSchema")
    if isinstance(schema, dict) or schema is None:
        # A tool without arguments, or a schema that leaves out what is known.
        schema = dict(schema or {})
        if schema.get("type", "object") not in ("object", None):
            meta[INPUT_TYPE] = schema["type"]
        if not isinstance(schema.get("$schema", ""), str):
            del schema["$schema"]
        tool["inputSchema"] = {**schema, **OBJECT}
    else:
        tool["inputSchema"] = schema
    if written.get("outputSchema") is not None:
        # The SDK would check results by a schema that may be of any draft, or none.
        meta[OUTPUT_SCHEMA] = written["outputSchema"]
    return {**tool, "_meta": meta} if meta else tool
