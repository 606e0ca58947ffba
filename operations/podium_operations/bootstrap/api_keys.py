"""The first API keys: the platform's own and the first tenant's, in a Secret each.

They are made at the gateway's database, where being is all the proof there is. A key that its
owner used stays, also where the Secret is gone; one that no one ever used is what an interrupted
run left behind, and ends.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.config import DatabaseSettings
from gateway.errors import ExpiredApiKey, InvalidApiKey, RevokedApiKey
from gateway.keys.models import ApiKey, KeyRequest
from gateway.keys.offline import api_keys, keys_and_log
from gateway.keys.service import ApiKeys
from podium_kit.rpc.identity import Identity, Role, Scope, acting_as
from podium_operations.bootstrap.cluster_objects import ClusterObjects
from podium_operations.bootstrap.settings import Contents

PLATFORM_TENANT = "platform"
SUBJECT = "bootstrap"
PAGE = 500


@dataclass(frozen=True)
class FirstKey:
    secret: str
    name: str
    tenant: str
    role: Role


class FirstKeys:
    def __init__(self, objects: ClusterObjects, contents: Contents, issued: ApiKeys) -> None:
        self._objects = objects
        self._contents = contents
        self._issued = issued

    async def platform(self) -> tuple[str, list[str]]:
        secret = self._contents.platform_key_secret
        wanted = FirstKey(secret, "platform", PLATFORM_TENANT, Role.PLATFORM_ADMIN)
        return await self._ensure(wanted, required=True)

    async def tenant(self, tenant: str, *, required: bool) -> tuple[str, list[str]]:
        """The key of the first tenant's administrator, and what was made.

        Where it took its key out of the Secret it gets another one only if that is required.
        """
        wanted = FirstKey(self._contents.tenant_key_secret, "tenant", tenant, Role.TENANT_ADMIN)
        return await self._ensure(wanted, required=required)

    async def _ensure(self, wanted: FirstKey, *, required: bool) -> tuple[str, list[str]]:
        stored = await self._objects.secret(wanted.secret) or {}
        if (text := stored.get(wanted.name)) and await self._works(text, wanted.tenant):
            return text, []
        with acting_as(Identity(wanted.tenant, SUBJECT, frozenset({Scope.TENANT_ADMIN}))):
            used = False
            for key in await self._living(wanted):
                used = used or key.last_used_time is not None
                if key.last_used_time is None:
                    await self._issued.revoke(_owner(wanted), key.id)
            if used and not required:
                return "", []
            request = KeyRequest(wanted.tenant, SUBJECT, roles=frozenset({wanted.role}))
            text = (await self._issued.issue(request))[1]
        await self._objects.write_secret(wanted.secret, {wanted.name: text})
        return text, [
            f"API key of tenant {wanted.tenant} in Secret {wanted.secret}, key {wanted.name}"
        ]

    async def _works(self, text: str, tenant: str) -> bool:
        try:
            return (await self._issued.verify(text)).tenant == tenant
        except (InvalidApiKey, ExpiredApiKey, RevokedApiKey):
            return False

    async def _living(self, wanted: FirstKey) -> list[ApiKey]:
        found: list[ApiKey] = []
        while page := await self._issued.list(wanted.tenant, found[-1].id if found else "", PAGE):
            found += page
        return [
            key
            for key in found
            if key.subject == SUBJECT and wanted.role in key.roles and not key.revoke_time
        ]


def _owner(wanted: FirstKey) -> Identity:
    return Identity(wanted.tenant, SUBJECT, frozenset({Scope.PLATFORM_ADMIN}))


@asynccontextmanager
async def first_keys(
    objects: ClusterObjects, contents: Contents, database_url: str
) -> AsyncIterator[FirstKeys]:
    async with api_keys(DatabaseSettings(database_url=database_url)) as issued:
        yield FirstKeys(objects, contents, issued)


async def record(database_url: str, release: str, made: list[str]) -> None:
    """Writes into the audit log what was made beside the platform, before anybody could ask it."""
    settings = DatabaseSettings(database_url=database_url)
    identity = Identity(PLATFORM_TENANT, SUBJECT, frozenset())
    async with keys_and_log(settings) as (_, log):
        with acting_as(identity):
            async with log.change("BootstrapPlatform", release, {"made": made}) as change:
                change.after = {"made": made}
