"""A session with an MCP server has room for many calls at once, whosever server it is."""

import asyncio
from typing import Any

import httpcore2
import pytest

from tool_adapters.host_names import HostNames
from tool_adapters.mcp.guard import CONNECTIONS_MAX, mcp_http_client


@pytest.mark.parametrize("trusted", [True, False])
async def test_many_requests_connect_at_once(
    monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    connecting, all_connect = 0, asyncio.Event()

    async def connect_tcp(*_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        nonlocal connecting
        connecting += 1
        if connecting == CONNECTIONS_MAX:
            all_connect.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect_tcp)
    async with mcp_http_client(HostNames(), "acme", {}, trusted=trusted) as client:
        requests = [
            asyncio.create_task(client.post("http://1.1.1.1/mcp")) for _ in range(CONNECTIONS_MAX)
        ]
        # A request that finds no place in the pool ends before this.
        done, waiting = await asyncio.wait(
            [*requests, reached := asyncio.create_task(all_connect.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert done == {reached}
