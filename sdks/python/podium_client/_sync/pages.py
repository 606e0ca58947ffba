# Written by `make sdk` from podium_client/_async; do not edit.
"""Lists that are fetched page by page while they are walked through."""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Fetch(Protocol[T]):
    """Fetches the page of a token: its items, and the token of the next one."""

    def __call__(self, page_token: str, /) -> tuple[list[T], str]: ...


class Pages(Generic[T]):
    """The items of all pages; iterate over it, or take single pages."""

    def __init__(self, fetch: Fetch[T]) -> None:
        self._fetch = fetch

    def __iter__(self) -> Iterator[T]:
        page_token = ""
        while True:
            items, page_token = self._fetch(page_token)
            for item in items:
                yield item
            if not page_token:
                return

    def page(self, page_token: str = "") -> tuple[list[T], str]:
        """One page, and the token of the next one; "" on the last."""
        return self._fetch(page_token)

    def all(self) -> list[T]:
        """All items; for lists that are known to be short."""
        return [item for item in self]
