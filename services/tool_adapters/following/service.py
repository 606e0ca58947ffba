from typing import Protocol

from podium_kit.rpc.identity import Scope, current_identity, require_scope
from tool_adapters.following.errors import FollowedServerNotFound, TooManyFollowed
from tool_adapters.following.models import FollowedServer
from tool_adapters.mcp.servers import ListableServers
from tool_adapters.secret_store import PLATFORM

# Of a tenant, or of the platform: one process may hold a session with each.
FOLLOWED_MAX = 100


class FollowedServerStore(Protocol):
    async def follow(self, server: FollowedServer) -> FollowedServer | None: ...
    async def others(self, server: FollowedServer) -> int: ...
    async def find(self, tenant: str, server_id: str) -> FollowedServer | None: ...
    async def unfollow(self, server: FollowedServer) -> None: ...
    async def list_for(self, tenant: str, after: str, limit: int) -> list[FollowedServer]: ...


class Permission(Protocol):
    async def allow(self, server: FollowedServer) -> None: ...
    async def end(self, server_id: str) -> None: ...


class FollowedServers:
    def __init__(
        self, store: FollowedServerStore, listable: ListableServers, permission: Permission
    ) -> None:
        self._store = store
        self._permission = permission
        self._listable = listable

    async def follow(self, server: FollowedServer) -> FollowedServer:
        """Follows it from now on.

        Raises PermissionDenied, McpServerUnusable, TooManyFollowed, NotFound, and what the
        registry raises.
        """
        _require_owner(server.owner)
        await self._listable.require(server.transport)
        if await self._store.others(server) >= FOLLOWED_MAX:
            raise TooManyFollowed(FOLLOWED_MAX)
        # First, for what is followed without it could change nothing.
        await self._permission.allow(server)
        kept = await self._store.follow(server)
        if kept is None:
            raise FollowedServerNotFound(server.id)
        return kept

    async def unfollow(self, server_id: str) -> None:
        server = await self._store.find(current_identity().tenant, server_id)
        if server is None:
            raise FollowedServerNotFound(server_id)
        _require_owner(server.owner)
        await self._permission.end(server_id)
        await self._store.unfollow(server)

    async def list_for_caller(self, after: str, limit: int) -> list[FollowedServer]:
        tenant = current_identity().tenant
        return await self._store.list_for(tenant, after, limit)


def _require_owner(owner: str) -> None:
    if owner == PLATFORM:
        require_scope(Scope.PLATFORM_ADMIN)
