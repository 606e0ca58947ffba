"""Filters and pages of what is in memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rpckit.pages import decode_page_token, encode_page_token, page_size
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


def take_page(
    items: Sequence[T], key: Callable[[T], str], requested: int, token: str
) -> tuple[Sequence[T], str]:
    """A page of items in key order, and the token of the next one.

    The token holds the last key, so what is added meanwhile moves nothing.
    """
    size = page_size(requested, DEFAULT_PAGE, MAXIMUM_PAGE)
    after = decode_page_token(token).get("after")
    rest = items if after is None else [item for item in items if key(item) > after]
    page = rest[:size]
    more = len(rest) > size
    return page, encode_page_token({"after": key(page[-1])}) if more else ""
