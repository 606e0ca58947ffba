import json
from dataclasses import asdict, dataclass

import httpx

from podium_kit.rpc.identity import Identity, Role, acting_as
from podium_operations.local.state import StateFolder, write_private

TENANT = "default"
# Its own: an admin of the user's tenant must not administer the key of the platform's admin.
PLATFORM_TENANT = "platform"
SUBJECT = "podium-up"


@dataclass(frozen=True)
class LocalKeys:
    """Secrets: the tenant's own key, and the one that may change what every tenant sees."""

    tenant: str
    platform: str


async def ensure_api_keys(state: StateFolder, gateway_url: str, database_url: str) -> LocalKeys:
    """The keys of the state folder, made anew when the gateway does not know them."""
    keys = _stored(state)
    if keys is None or not await _work(gateway_url, keys):
        keys = LocalKeys(
            await issue_first_key(database_url, TENANT, SUBJECT, Role.TENANT_ADMIN),
            await issue_first_key(database_url, PLATFORM_TENANT, SUBJECT, Role.PLATFORM_ADMIN),
        )
        write_private(state.api_keys_file, json.dumps(asdict(keys)))
    return keys


def _stored(state: StateFolder) -> LocalKeys | None:
    try:
        return LocalKeys(**json.loads(state.api_keys_file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


async def _work(gateway_url: str, keys: LocalKeys) -> bool:
    async with httpx.AsyncClient(base_url=gateway_url, trust_env=False) as client:
        for key, tenant in ((keys.tenant, TENANT), (keys.platform, PLATFORM_TENANT)):
            headers = {"authorization": f"Bearer {key}", "x-podium-tenant": tenant}
            reply = await client.get("/v1/api-keys", headers=headers)
            if reply.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                return False
    return True


async def issue_first_key(database_url: str, tenant: str, subject: str, role: Role) -> str:
    """A key made at the gateway's database, where no key is asked for. Raises DomainError.

    The audit log of the tenant names the subject as its creator.
    """
    # The gateway's own stack: slow to import, and needed for first keys alone.
    from gateway.config import DatabaseSettings  # noqa: PLC0415
    from gateway.keys.models import KeyRequest  # noqa: PLC0415
    from gateway.server import api_keys  # noqa: PLC0415

    async with api_keys(DatabaseSettings(database_url=database_url)) as issued:
        with acting_as(Identity(tenant, subject, frozenset())):
            return (await issued.issue(KeyRequest(tenant, subject, roles=frozenset({role}))))[1]
