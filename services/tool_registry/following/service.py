"""Changes that the adapters make by themselves: tools of followed MCP servers alone.

The adapters read what untrusted servers say, so their key is no tool owner's. An owner says
once, with an identity of its own, which names and which connection a server's tools have;
within that the adapters register versions and deprecate (docs/adr/0029).
"""

import re
from dataclasses import dataclass

from podium_kit.rpc.identity import Identity, Scope, current_identity, require_scope
from podium_kit.tool_kinds import MCP
from tool_registry.errors import (
    FollowedElsewhere,
    InvalidFollowing,
    NotFollowed,
    NotTheServers,
    OutsideFollowing,
    ToolNotFound,
)
from tool_registry.following.models import FollowedTools, ListedTool
from tool_registry.following.store import PostgresFollowingStore
from tool_registry.models import PLATFORM
from tool_registry.tools.catalogue import Catalogue, Catalogues
from tool_registry.tools.checks import check_fairly
from tool_registry.tools.service import digest_of
from tool_registry.tools.store import ToolStore

NAME_PREFIX = re.compile(r"[a-z][a-z0-9_-]{0,31}")


@dataclass(frozen=True)
class Following:
    store: PostgresFollowingStore
    tools: ToolStore
    catalogues: Catalogues

    async def allow(self, followed: FollowedTools) -> None:
        identity = _require_owner(followed.owner)
        if not NAME_PREFIX.fullmatch(followed.name_prefix):
            raise InvalidFollowing(
                f"name_prefix {followed.name_prefix!r} must start with a letter and hold at most "
                "32 of a-z 0-9 _ -; it keeps a server's tools apart from all others"
            )
        if not await self.store.allow(followed, identity.subject):
            raise FollowedElsewhere(followed.name_prefix)

    async def end(self, server_id: str) -> None:
        followed = await self.store.find(_owners(), server_id)
        if followed is not None:
            _require_owner(followed.owner)
            await self.store.end(_owners(), server_id)

    async def register(self, server_id: str, listed: ListedTool) -> None:
        followed, spec = await self._followed(server_id), listed.spec
        if not await self._is_servers(followed, spec.name):
            raise OutsideFollowing(
                f"{spec.name} does not begin with {followed.name_prefix}, or is a tool of another "
                "kind; rename one of the two"
            )
        if listed.common != followed.common:
            raise OutsideFollowing(f"{spec.name} differs from what its owner laid down")
        await check_fairly(spec, followed.owner == PLATFORM)
        if followed.owner != PLATFORM:
            (await self._catalogue()).tools.resources.check(spec)
        await self.tools.register(
            followed.owner,
            spec,
            digest_of(spec.wire),
            current_identity().subject,
            validate_only=False,
        )

    async def deprecate(self, server_id: str, name: str) -> None:
        """Raises NotFollowed, NotTheServers, ToolNotFound."""
        followed = await self._followed(server_id)
        if not await self._is_servers(followed, name):
            raise NotTheServers(name)
        if not await self.tools.deprecate(followed.owner, name, 0):
            raise ToolNotFound(name)

    async def _followed(self, server_id: str) -> FollowedTools:
        followed = await self.store.find(_owners(), server_id)
        if followed is None:
            raise NotFollowed(server_id)
        return followed

    async def _catalogue(self) -> Catalogue:
        versions = await self.tools.versions()
        return await self.catalogues.of(current_identity().tenant, versions.catalogue)

    async def _is_servers(self, followed: FollowedTools, name: str) -> bool:
        """A tool of another kind is its owner's own."""
        known = (await self._catalogue()).tools.by_name.get(name, ())
        others = (tool for tool in known if tool.current and tool.spec.kind is not MCP)
        return name.startswith(followed.name_prefix) and not any(others)


def _owners() -> tuple[str, ...]:
    return current_identity().tenant, PLATFORM


def _require_owner(owner: str) -> Identity:
    if owner == PLATFORM:
        require_scope(Scope.PLATFORM_ADMIN)
    return current_identity()
