import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from embedded_servers import Database
from gateway.config import DatabaseSettings
from gateway.keys.models import KeyRequest
from gateway.server import api_keys
from integration.gateway.gateway_under_test import GatewayUnderTest, run_gateway
from podium_kit.rpc.identity import Identity, Role, acting_as
from podium_operations.local.api_keys import PLATFORM_TENANT, TENANT, LocalKeys, ensure_api_keys
from podium_operations.local.state import StateFolder


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateFolder]:
    state = StateFolder(tmp_path / "state").acquire()
    yield state
    state.release()


async def test_the_users_key_neither_sees_nor_rotates_nor_revokes_the_platform_admins(
    database: Database, state: StateFolder, tmp_path: Path
) -> None:
    async with run_gateway(url := await database("gateway"), tmp_path) as gateway:
        keys = await ensure_api_keys(state, gateway.base_url, url)
        await assert_out_of_reach(gateway, keys)
        assert await ensure_api_keys(state, gateway.base_url, url) == keys


async def test_a_platform_admin_that_shares_the_users_tenant_is_replaced_at_the_next_start(
    database: Database, state: StateFolder, tmp_path: Path
) -> None:
    async with run_gateway(url := await database("gateway"), tmp_path) as gateway:
        old = LocalKeys(
            tenant=await issue(url, Role.TENANT_ADMIN),
            platform=await issue(url, Role.PLATFORM_ADMIN),
        )
        state.api_keys_file.write_text(json.dumps(asdict(old)))
        keys = await ensure_api_keys(state, gateway.base_url, url)
        assert keys.platform != old.platform
        await assert_out_of_reach(gateway, keys)


async def issue(database_url: str, role: Role) -> str:
    """A key of the user's tenant, as `podium up` once made both."""
    async with api_keys(DatabaseSettings(database_url=database_url)) as issued:
        with acting_as(Identity(TENANT, "podium-up", frozenset())):
            return (await issued.issue(KeyRequest(TENANT, "podium-up", roles=frozenset({role}))))[1]


async def assert_out_of_reach(gateway: GatewayUnderTest, keys: LocalKeys) -> None:
    key_id = keys.platform.split("_")[1]
    async with gateway.http(keys.tenant) as user:
        assert key_id not in (await user.get("/v1/api-keys")).text
        for verb in ("rotate", "revoke"):
            reply = await user.post(f"/v1/api-keys/{key_id}/{verb}", json={})
            assert reply.status_code == 404
    async with gateway.http(keys.platform) as admin:
        headers = {"x-podium-tenant": PLATFORM_TENANT}
        assert (await admin.get("/v1/api-keys", headers=headers)).status_code == 200
