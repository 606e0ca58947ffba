"""How many MCP servers a tenant follows: a process may hold a session with each of them."""

from typing import Any

import pytest

from callers import make_identity
from podium_kit.rpc.identity import acting_as
from tool_adapters.following.errors import TooManyFollowed
from tool_adapters.following.models import FollowedServer
from tool_adapters.following.service import FOLLOWED_MAX, FollowedServers
from tool_adapters.models import McpHttp, McpStdio


class Kept:
    """Followed servers in memory, and the registry, which allows every one."""

    def __init__(self) -> None:
        self.servers: dict[str, FollowedServer] = {}
        self.allowed: list[str] = []

    def require_defined(self, _: McpStdio | McpHttp) -> None:
        """All are."""

    async def allow(self, server: FollowedServer) -> None:
        self.allowed.append(server.id)

    async def others(self, server: FollowedServer) -> int:
        known = self.servers.values()
        return sum(each.owner == server.owner and each.id != server.id for each in known)

    async def follow(self, server: FollowedServer) -> FollowedServer:
        self.servers[server.id] = server
        return server


def server_of(owner: str, number: int) -> FollowedServer:
    return FollowedServer(f"{owner}-{number}", owner, b"", McpHttp("https://mcp.example.com/mcp"))


async def test_a_tenant_follows_so_many_servers_and_may_change_each_of_them() -> None:
    kept: Any = Kept()
    following = FollowedServers(kept, kept, kept)
    with acting_as(make_identity("acme")):
        for number in range(FOLLOWED_MAX):
            await following.follow(server_of("acme", number))
        await following.follow(server_of("acme", 0))
        with pytest.raises(TooManyFollowed, match="unfollow one of them first"):
            await following.follow(server_of("acme", FOLLOWED_MAX))
    with acting_as(make_identity("other")):
        await following.follow(server_of("other", 0))
    assert f"acme-{FOLLOWED_MAX}" not in kept.allowed
