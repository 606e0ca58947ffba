"""Filters and pages of what is in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from rpckit.pages import InvalidPageToken, decode_page_token, encode_page_token, page_size
from tool_registry.models import ToolKind, ToolVersion

DEFAULT_PAGE = 50
MAXIMUM_PAGE = 500
T = TypeVar("T")


@dataclass(frozen=True)
class ToolFilter:
    """Which tools to list; empty fields do not restrict."""

    kinds: frozenset[ToolKind]
    tags: frozenset[str]
    words: tuple[str, ...]


def filter_tools(tools: Sequence[ToolVersion], keep: ToolFilter) -> list[ToolVersion]:
    """The tools that match all of the filter."""
    return [
        tool
        for tool in tools
        if (not keep.kinds or tool.spec.kind in keep.kinds)
        and keep.tags <= tool.spec.tags
        and all(word in f"{tool.spec.name} {tool.spec.description}".lower() for word in keep.words)
    ]


def take_page(items: Sequence[T], requested: int, token: str) -> tuple[Sequence[T], str]:
    """A page of items and the token of the next one."""
    size = page_size(requested, DEFAULT_PAGE, MAXIMUM_PAGE)
    start = decode_page_token(token).get("start", "0")
    if not start.isdigit():
        raise InvalidPageToken
    end = int(start) + size
    return items[int(start) : end], encode_page_token({"start": str(end)}) if end < len(
        items
    ) else ""
