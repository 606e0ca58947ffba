"""Pages end by their bytes, and together hold everything once."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from podium_kit.rpc.pages import PAGE_BYTES_MAX
from tool_registry.tools.listing import MAXIMUM_PAGE, take_page

KIB = 1024


def pages(sizes: list[int]) -> Iterator[list[int]]:
    """The sizes of all items, page by page."""
    items, token = list(enumerate(sizes)), ""
    while True:
        page, token = take_page(
            items, lambda item: f"{item[0]:09}", MAXIMUM_PAGE, token, lambda item: item[1]
        )
        yield [size for _, size in page]
        if not token:
            return


def test_500_tools_of_64_kib_are_eight_pages() -> None:
    found = list(pages([64 * KIB] * 500))
    assert [len(page) for page in found] == [64] * 7 + [52]


@given(st.lists(st.integers(0, 2 * PAGE_BYTES_MAX), max_size=40))
def test_every_page_fits_or_is_one_item(sizes: list[int]) -> None:
    found = list(pages(sizes))
    assert [size for page in found for size in page] == sizes
    assert all(sum(page) <= PAGE_BYTES_MAX or len(page) == 1 for page in found)
