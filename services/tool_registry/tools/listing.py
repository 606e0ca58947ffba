from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from podium_kit.rpc.pages import (
    PAGE_BYTES_MAX,
    decode_page_token,
    encode_page_token,
    page_size,
)
from podium_kit.tool_kinds import ToolKind
from tool_registry.models import ToolVersion

DEFAULT_PAGE = 50
MAXIMUM_PAGE = 500
T = TypeVar("T")


@dataclass(frozen=True)
class ToolFilter:
    kinds: frozenset[ToolKind]
    tags: frozenset[str]
    words: tuple[str, ...]

    def keeps(self, tool: ToolVersion) -> bool:
        spec = tool.spec
        return (
            (not self.kinds or spec.kind in self.kinds)
            and self.tags <= spec.tags
            and all(word in f"{spec.name} {spec.description}".lower() for word in self.words)
        )


def take_page(
    items: Sequence[T],
    key: Callable[[T], str],
    requested: int,
    token: str,
    size_of: Callable[[T], int] = lambda item: 0,
) -> tuple[Sequence[T], str]:
    """A page of items in key order, and the token of the next one.

    The token holds the last key, so what is added meanwhile moves nothing. The sizes are in bytes.
    """
    size = page_size(requested, DEFAULT_PAGE, MAXIMUM_PAGE)
    after = decode_page_token(token).get("after")
    rest = items if after is None else [item for item in items if key(item) > after]
    sums = accumulate(map(size_of, rest[:size]))
    page = rest[: max(1, sum(total <= PAGE_BYTES_MAX for total in sums))]
    more = len(rest) > len(page)
    return page, encode_page_token({"after": key(page[-1])}) if more else ""
