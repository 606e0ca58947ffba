"""Follows servers: of all processes one per server, and the registry hears what changed.

What the registry was told is kept, so a restarted process tells only what changed meanwhile,
and a tool its owner deprecated stays so until the server changes it. A process that dies
between telling and keeping tells again, which changes nothing.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
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
from tool_adapters.following.models import FollowedServer, ListedSpec
from tool_adapters.following.watching import EachListing, ListWatch
from tool_adapters.mcp.discovery import Discovery
from tool_adapters.secret_store import SecretStore

log = logging.getLogger(__name__)

BACKOFF = tenacity.wait_exponential_jitter(multiplier=1, max=60, jitter=1)
REJECTIONS = (InvalidArgument, AlreadyExists, FailedPrecondition, PermissionDenied)
WORDS_MAX = 500


class LeaseStore(Protocol):
    """What the follower needs of a database; see store."""

    async def lease(self, follower: str, lease_s: float) -> list[FollowedServer]: ...
    async def release(self, follower: str) -> None: ...
    async def listed(self, server_id: str) -> dict[str, str]: ...
    async def keep_listed(
        self, server: FollowedServer, listed: Mapping[str, str], problem: str
    ) -> None: ...
    async def keep_problem(self, server: FollowedServer, problem: str) -> None: ...


class Catalogue(Protocol):
    """The registry, which lets us change tools of followed servers; see clients_catalogue."""

    async def register(self, server: FollowedServer, spec: ListedSpec) -> None: ...
    async def deprecate(self, server: FollowedServer, name: str) -> None: ...


class Specs(Protocol):
    """The specs of a server's tools; see convert."""

    def __call__(self, server: FollowedServer, discovery: Discovery) -> list[ListedSpec]: ...


@dataclass
class Follower:
    """One per process. A lease lasts `lease_s` seconds and is renewed by every round."""

    store: LeaseStore
    watch: ListWatch
    catalogue: Catalogue
    specs: Specs
    secrets: SecretStore
    lease_s: float
    _name: str = field(default_factory=lambda: uuid4().hex)
    _following: dict[tuple[str, bytes], asyncio.Task[None]] = field(default_factory=dict)

    async def round(self) -> None:
        """Renews the leases and takes free ones; call it several times per lease."""
        try:
            async with asyncio.timeout(self.lease_s / 2):
                leased = await self.store.lease(self._name, self.lease_s)
        except Exception:
            # Whyever it cannot renew, it must not go on: another process will.
            await self._stop(list(self._following))
            raise
        wanted = {(server.id, server.definition): server for server in leased}
        await self._stop([key for key in self._following if key not in wanted])
        for key in wanted.keys() - self._following.keys():
            self._following[key] = asyncio.create_task(self._follow(wanted[key]))

    async def close(self) -> None:
        """Stops following and leaves the servers to others."""
        await self._stop(list(self._following))
        await self.store.release(self._name)

    async def _stop(self, keys: list[tuple[str, bytes]]) -> None:
        tasks = [self._following.pop(key) for key in keys]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, server: FollowedServer) -> None:
        """Until it is cancelled; a server that is away is tried again, ever more seldom."""
        tries = tenacity.RetryCallState(tenacity.AsyncRetrying(), None, (), {})

        async def each(discovery: Discovery) -> None:
            await self._tell(server, discovery)
            tries.attempt_number = 1

        while True:
            try:
                await self._watch(server, each)
            except Exception:  # BLE001: the database's fault or ours, which may pass
                log.exception("following an MCP server failed")
            await asyncio.sleep(BACKOFF(tries))
            tries.attempt_number += 1

    async def _watch(self, server: FollowedServer, each: EachListing) -> None:
        """Until the server ends it, or it fails, or the registry does: its owner is told why."""
        try:
            await self.watch.run(server.transport, server.runs_as, each)
        except (CallFailed, DomainError) as error:
            log.warning("an MCP server cannot be followed: %s", type(error).__name__)
            problem = self.secrets.redact(str(error))[:WORDS_MAX]
            await self.store.keep_problem(server, problem)

    async def _tell(self, server: FollowedServer, discovery: Discovery) -> None:
        """Tells the registry what changed. Raises Unavailable and its like."""
        known = await self.store.listed(server.id)
        specs = {spec.name: spec for spec in self.specs(server, discovery)}
        listed, problems = dict(known), []
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
        await self.store.keep_listed(server, listed, "; ".join(problems)[:WORDS_MAX])

    async def _deprecate(self, server: FollowedServer, name: str) -> None:
        try:
            await self.catalogue.deprecate(server, name)
        except NotFound:
            # Deleted before, or its owner gave the server's tools other names.
            log.info("a tool that vanished from an MCP server is not the server's any more")
