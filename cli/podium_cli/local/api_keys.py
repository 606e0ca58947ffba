"""The first API keys of the platform on this machine, made once and used again."""

import json
from dataclasses import asdict, dataclass

import httpx

from podium_cli.local.state import StateFolder, write_private
from podium_kit.rpc.identity import Identity, Role, acting_as

TENANT = "default"
SUBJECT = "podium-up"


@dataclass(frozen=True)
class LocalKeys:
    """Secrets: the tenant's own key, and the one that may change what every tenant sees."""

    tenant: str
    platform: str


async def ensure_api_keys(state: StateFolder, gateway_url: str, database_url: str) -> LocalKeys:
    """The keys of the state folder, made anew when the gateway does not know them."""
    keys = _stored(state)
    if keys is None or not await _works(gateway_url, keys.tenant):
        keys = await _issue(database_url)
        write_private(state.api_keys_file, json.dumps(asdict(keys)))
    return keys


def _stored(state: StateFolder) -> LocalKeys | None:
    try:
        return LocalKeys(**json.loads(state.api_keys_file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


async def _works(gateway_url: str, key: str) -> bool:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=gateway_url, headers=headers, trust_env=False) as client:
        return (await client.get("/v1/api-keys")).status_code != httpx.codes.UNAUTHORIZED


async def _issue(database_url: str) -> LocalKeys:
    # The gateway's own stack: slow to import, and needed at the first start alone.
    from gateway.config import DatabaseSettings  # noqa: PLC0415
    from gateway.keys.models import KeyRequest  # noqa: PLC0415
    from gateway.server import api_keys  # noqa: PLC0415

    async with api_keys(DatabaseSettings(database_url=database_url)) as issued:
        with acting_as(Identity(TENANT, SUBJECT, frozenset())):
            texts = [
                (await issued.issue(KeyRequest(TENANT, SUBJECT, roles=frozenset({role}))))[1]
                for role in (Role.TENANT_ADMIN, Role.PLATFORM_ADMIN)
            ]
    return LocalKeys(*texts)
