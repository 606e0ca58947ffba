from typing import Any

import mcp_types
import pytest

from tool_adapters.errors import DiscoveryFailed
from tool_adapters.mcp.discovery import PAGES_MAX, TOOLS_MAX, discovery_of


class Pages:
    server_info = None

    def __init__(self, pages: int, tools: int, description: str = "Does it.") -> None:
        self._pages, self._tools, self._description = pages, tools, description
        self.asked = 0

    async def list_tools(self, cursor: str | None) -> mcp_types.ListToolsResult:
        self.asked += 1
        tools = [
            mcp_types.Tool(
                name=f"tool-{self.asked}-{number}",
                description=self._description,
                input_schema={"type": "object"},
            )
            for number in range(self._tools)
        ]
        more = str(self.asked) if self.asked < self._pages else None
        return mcp_types.ListToolsResult(tools=tools, next_cursor=more)


async def discovered(pages: Pages) -> int:
    client: Any = pages
    return len((await discovery_of(client, "acme")).tools)


async def test_every_page_is_read() -> None:
    assert await discovered(Pages(PAGES_MAX, TOOLS_MAX // PAGES_MAX)) == TOOLS_MAX


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        (Pages(10**9, 0), "more than 100 pages"),
        (Pages(10**9, 500), "more than 2000 tools"),
        (Pages(10**9, 10, "x" * 200_000), "or 8 MiB"),
    ],
)
async def test_a_list_without_end_is_rejected_when_it_is_too_long(pages: Pages, words: str) -> None:
    with pytest.raises(DiscoveryFailed, match=words):
        await discovered(pages)
    assert pages.asked <= PAGES_MAX


async def test_a_list_that_is_none_is_the_servers_fault_and_says_where() -> None:
    class Nonsense(Pages):
        async def list_tools(self, cursor: str | None) -> mcp_types.ListToolsResult:
            return mcp_types.ListToolsResult.model_validate({"tools": [{"name": "s3cr3t" * 999}]})

    with pytest.raises(DiscoveryFailed, match=r"tools\.0\.inputSchema: Field required") as failed:
        await discovered(Nonsense(1, 1))
    assert "s3cr3t" not in failed.value.message
