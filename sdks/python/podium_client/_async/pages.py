"""Lists that are fetched page by page while they are walked through."""

from collections.abc import AsyncIterator
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class AsyncFetch(Protocol[T]):
    """Fetches the page of a token: its items, and the token of the next one."""

    async def __call__(self, page_token: str, /) -> tuple[list[T], str]: ...


class AsyncPages(Generic[T]):
    """The items of all pages; iterate over it, or take single pages."""

    def __init__(self, fetch: AsyncFetch[T]) -> None:
        self._fetch = fetch

    async def __aiter__(self) -> AsyncIterator[T]:
        page_token = ""
        while True:
            items, page_token = await self._fetch(page_token)
            for item in items:
                yield item
            if not page_token:
                return

    async def page(self, page_token: str = "") -> tuple[list[T], str]:
        """One page, and the token of the next one; "" on the last."""
        return await self._fetch(page_token)

    async def all(self) -> list[T]:
        """All items; for lists that are known to be short."""
        return [item async for item in self]
