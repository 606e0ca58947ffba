"""Follows servers: of all processes one per server, and the registry gets what changed.

What was registered is stored, so a restarted process registers only what changed meanwhile, and
a tool its owner deprecated stays so until the server changes it. A process that dies between
registering and storing registers again, which changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

import tenacity

from podium_kit.rpc.errors import (
    AlreadyExists,
    DomainError,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
)
from tool_adapters.adapter import CallFailed
from tool_adapters.following.clients import RegistryCatalogue
from tool_adapters.following.models import FollowedServer, ListedSpec
from tool_adapters.following.store import PostgresFollowedServerStore
from tool_adapters.following.watching import ListWatch
from tool_adapters.used_secrets import noting_secrets

if TYPE_CHECKING:
    from tool_adapters.mcp.discovery import Discovery

log = logging.getLogger(__name__)

BACKOFF = tenacity.wait_exponential_jitter(multiplier=1, max=60, jitter=1)
REJECTIONS = (InvalidArgument, AlreadyExists, FailedPrecondition, PermissionDenied)
PROBLEM_CHARACTERS_MAX = 500


@dataclass
class _Followed:
    """A server and the watch of it that runs, or has ended and begins again when it is `due`.

    `fault` is what ended the last watch, if that was not the server's; a listing clears it.
    """

    server: FollowedServer
    watch: asyncio.Task[None] | None = None
    due: float = 0.0
    fault: BaseException | None = None
    tries: tenacity.RetryCallState = field(
        default_factory=lambda: tenacity.RetryCallState(tenacity.AsyncRetrying(), None, (), {})
    )


@dataclass
class Follower:
    """One per process. A lease lasts `lease_s` seconds and is renewed by every `renew`."""

    store: PostgresFollowedServerStore
    watch: ListWatch
    catalogue: RegistryCatalogue
    specs: Callable[[FollowedServer, "Discovery"], tuple[list[ListedSpec], list[str]]]
    lease_s: float
    _name: str = field(default_factory=lambda: uuid4().hex)
    _following: dict[tuple[str, bytes], _Followed] = field(default_factory=dict)

    async def renew(self) -> None:
        """Renews the leases and takes free ones; call it several times per lease."""
        try:
            async with asyncio.timeout(self.lease_s / 2):
                leased = await self.store.lease(self._name, self.lease_s)
        except Exception:
            # If it cannot renew, it must not continue: another process will.
            await self._stop(list(self._following))
            raise
        wanted = {(server.id, server.definition): server for server in leased}
        await self._stop([key for key in self._following if key not in wanted])
        for key in wanted.keys() - self._following.keys():
            followed = self._following[key] = _Followed(wanted[key])
            followed.watch = asyncio.create_task(self._watch(followed))

    async def resume(self) -> None:
        """Watches again where a watch ended, for a server that is away ever more seldom.

        Raises, until they are gone, faults that are no server's, as of the database.
        """
        now = asyncio.get_running_loop().time()
        for followed in self._following.values():
            if followed.watch is not None and followed.watch.done():
                ended, followed.watch = followed.watch, None
                followed.fault = None if ended.cancelled() else ended.exception()
                followed.due = now + BACKOFF(followed.tries)
                followed.tries.attempt_number += 1
            if followed.watch is None and followed.due <= now:
                followed.watch = asyncio.create_task(self._watch(followed))
        if faults := [each.fault for each in self._following.values() if each.fault]:
            raise BaseExceptionGroup("MCP servers are not followed for now", faults)

    async def close(self) -> None:
        await self._stop(list(self._following))
        await self.store.release(self._name)

    async def _stop(self, keys: list[tuple[str, bytes]]) -> None:
        watches = [watch for key in keys if (watch := self._following.pop(key).watch)]
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    async def _watch(self, followed: _Followed) -> None:
        server = followed.server

        async def each(discovery: "Discovery") -> None:
            await self._update(server, discovery)
            followed.tries.attempt_number = 1
            followed.fault = None

        with noting_secrets() as used:
            try:
                await self.watch.run(server.transport, server.runs_as, each)
            except (CallFailed, DomainError) as error:
                log.warning("an MCP server cannot be followed: %s", type(error).__name__)
                problem = used.redact(str(error))[:PROBLEM_CHARACTERS_MAX]
                await self.store.keep_problem(server, problem)

    async def _update(self, server: FollowedServer, discovery: "Discovery") -> None:
        """Registers and deprecates what changed. Raises Unavailable and its like."""
        known = await self.store.listed(server.id)
        found, problems = self.specs(server, discovery)
        specs = {spec.name: spec for spec in found}
        listed = dict(known)
        # A server that lists nothing at all is more likely broken than empty.
        for name in known.keys() - specs.keys() if specs else ():
            try:
                await self._deprecate(server, name)
                del listed[name]
            except REJECTIONS as error:
                problems.append(f"{name}: {error.message}")
        for name, spec in specs.items():
            if known.get(name) == spec.digest:
                continue
            try:
                await self.catalogue.register(server, spec)
                listed[name] = spec.digest
            except REJECTIONS as error:
                problems.append(f"{name}: {error.message}")
        await self.store.keep_listed(server, listed, "; ".join(problems)[:PROBLEM_CHARACTERS_MAX])

    async def _deprecate(self, server: FollowedServer, name: str) -> None:
        try:
            await self.catalogue.deprecate(server, name)
        except NotFound:
            # Deleted before, or its owner gave the server's tools other names.
            log.info("a tool that vanished from an MCP server is not the server's any more")
