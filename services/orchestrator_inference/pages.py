from collections.abc import Callable, Sequence
from typing import TypeVar

from podium_kit.rpc.pages import decode_page_token, encode_page_token, page_size

PAGE_DEFAULT = 50
PAGE_MAX = 500


Row = TypeVar("Row")


def page_of(
    rows: Sequence[Row], key: Callable[[Row], str], requested: int, token: str
) -> tuple[Sequence[Row], str]:
    """A page of rows, which are sorted by the key, and the next page's token, "" on the last."""
    after = decode_page_token(token).get("after", "")
    rest = [row for row in rows if key(row) > after]
    page = rest[: page_size(requested, PAGE_DEFAULT, PAGE_MAX)]
    more = len(page) < len(rest)
    return page, encode_page_token({"after": key(page[-1])}) if more else ""
