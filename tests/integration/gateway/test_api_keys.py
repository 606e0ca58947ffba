from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from embedded_servers import Database
from gateway.errors import ApiKeyEnded
from gateway.keys.models import KeyRequest
from gateway.keys.service import new_key
from gateway.keys.store import PostgresApiKeyStore
from integration.gateway.gateway_under_test import Gateway, run_gateway
from podium_kit.postgres.engine import open_engine
from podium_kit.rpc.identity import Identity, Scope


async def create(gateway: Gateway, **body: Any) -> dict[str, Any]:
    reply = await gateway.post("/v1/api-keys", json={"subject": "robot", **body})
    assert reply.status_code == 200, reply.text
    result: dict[str, Any] = reply.json()
    return result


async def rotate(gateway: Gateway, key: str, **body: Any) -> Any:
    return await gateway.post(f"/v1/api-keys/{key.split('_')[1]}/rotate", json=body)


async def status(gateway: Gateway, key: str) -> tuple[int, str]:
    reply = await gateway.get("/v1/models", key=key)
    return reply.status_code, "" if reply.is_success else reply.json()["error"]["reason"]


async def test_a_rotated_key_works_until_the_overlap_ends(gateway: Gateway) -> None:
    old = await create(gateway, roles=["developer"])
    reply = await rotate(gateway, old["key"], overlap_s=3600)
    new = reply.json()
    ends = datetime.fromisoformat(new["old_api_key"]["expire_time"])
    assert timedelta(minutes=59) < ends - datetime.now(UTC) < timedelta(minutes=61)
    assert new["old_api_key"]["successor_id"] == new["api_key"]["id"] != old["api_key"]["id"]
    assert (new["api_key"]["roles"], new["api_key"]["subject"]) == (["developer"], "robot")
    assert await status(gateway, old["key"]) == await status(gateway, new["key"]) == (200, "")


async def test_a_key_rotated_without_overlap_has_expired_at_once(gateway: Gateway) -> None:
    old = await create(gateway, scopes=["spend:read"])
    new = (await rotate(gateway, old["key"], overlap_s=0)).json()
    assert await status(gateway, old["key"]) == (401, "EXPIRED_API_KEY")
    assert (await status(gateway, new["key"]))[0] == 200


async def test_the_successor_has_the_lifetime_of_its_predecessor(gateway: Gateway) -> None:
    until = (datetime.now(UTC) + timedelta(days=30)).isoformat()
    old = await create(gateway, roles=["auditor"], expire_time=until)
    new = (await rotate(gateway, old["key"])).json()["api_key"]
    lifetime = datetime.fromisoformat(new["expire_time"]) - datetime.now(UTC)
    assert timedelta(days=29, hours=23) < lifetime <= timedelta(days=30)


async def test_a_key_is_rotated_once_and_not_after_its_end(gateway: Gateway) -> None:
    rotated, revoked = await create(gateway, roles=["developer"]), await gateway.new_key()
    assert (await rotate(gateway, rotated["key"])).status_code == 200
    await gateway.post(f"/v1/api-keys/{revoked.split('_')[1]}/revoke")
    for key in (rotated["key"], revoked):
        reply = await rotate(gateway, key)
        assert (reply.status_code, reply.json()["error"]["reason"]) == (400, "API_KEY_ENDED")
    stranger = await rotate(gateway, await gateway.new_key("umbrella"))
    assert (stranger.status_code, stranger.json()["error"]["reason"]) == (404, "API_KEY_NOT_FOUND")


async def test_a_key_that_is_revoked_while_it_is_rotated_has_no_successor(gateway: Gateway) -> None:
    key_id = (await create(gateway, roles=["developer"]))["api_key"]["id"]
    engine = open_engine(gateway.database_url)
    store = PostgresApiKeyStore(engine)
    read = await store.get(key_id)
    assert read
    await store.revoke(read.tenant, key_id)
    new, _ = new_key(KeyRequest(read.tenant, read.subject, roles=read.roles))
    with pytest.raises(ApiKeyEnded):
        await store.replace(replace(read, successor_id=new.id), new)
    assert await store.get(new.id) is None
    await engine.dispose()


async def starter(gateway: Gateway, key: str) -> Identity:
    await gateway.post("/v1/episodes", json={"spec": {"task": "say hello"}}, key=key)
    return gateway.episodes.starters[-1]


async def test_a_rotated_key_is_bound_by_what_bound_the_first_of_them(gateway: Gateway) -> None:
    first = await create(gateway, roles=["developer"], teams=["search", "ads"])
    second = (await rotate(gateway, first["key"])).json()
    third = (await rotate(gateway, second["key"])).json()
    origin = first["api_key"]["id"]
    groups = {"role:developer", "team:search", "team:ads", f"key:{origin}", "creator:ada"}
    for made in (first, second, third):
        assert made["api_key"]["origin_id"] == origin
        assert made["api_key"]["teams"] == ["ads", "search"]
        seen = await starter(gateway, made["key"])
        assert seen.groups == groups
        assert seen.principals == groups | {"user:robot"}


async def test_who_had_the_text_of_a_key_travels_with_it(gateway: Gateway) -> None:
    admin = await create(gateway, subject="carol", roles=["tenant-admin"], agents=["bot"])
    body = {"subject": "bob", "roles": ["developer"]}
    bobs = (await gateway.post("/v1/api-keys", json=body, key=admin["key"])).json()
    seen = await starter(gateway, bobs["key"])
    # Carol's key was created by ada, who may have called with it.
    assert seen.people == {"bob", "carol", "ada"}
    assert bobs["api_key"]["creators"] == ["ada", "carol"]
    own = await create(gateway, subject="dan", roles=["developer"])
    turned = await gateway.post(
        f"/v1/api-keys/{own['api_key']['id']}/rotate", json={}, key=admin["key"]
    )
    assert (await starter(gateway, turned.json()["key"])).people == {"dan", "ada", "carol"}
    assert (await starter(gateway, admin["key"])).named("agent") == {"bot"}


@pytest.mark.parametrize("teams", [[""], ["a\nb"], ["x" * 129], [str(n) for n in range(33)]])
async def test_teams_are_few_and_printable(gateway: Gateway, teams: list[str]) -> None:
    body = {"subject": "robot", "roles": ["developer"], "teams": teams}
    reply = await gateway.post("/v1/api-keys", json=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "teams")


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
async def test_a_tenant_admin_cannot_take_over_or_end_a_platform_admins_key(
    gateway: Gateway, verb: str
) -> None:
    powerful = await gateway.new_key(scopes=[Scope.PLATFORM_ADMIN])
    path = f"/v1/api-keys/{powerful.split('_')[1]}/{verb}"
    rejected = await gateway.post(path, json={})
    assert (rejected.status_code, rejected.json()["error"]["reason"]) == (
        403,
        "SCOPE_NOT_GRANTABLE",
    )
    assert "pod_" not in rejected.text
    # The key is as it was, and its owner may do both.
    async with gateway.http(powerful) as owner:
        listed = {key["id"]: key for key in (await owner.get("/v1/api-keys")).json()["api_keys"]}
        untouched = listed[powerful.split("_")[1]]
        assert (untouched["successor_id"], untouched["revoke_time"]) == (None, None)
        assert (await owner.post(path, json={})).status_code == 200


async def test_a_role_lets_its_key_do_what_the_table_says(gateway: Gateway) -> None:
    key = (await create(gateway, roles=["auditor"]))["key"]
    assert (await gateway.get("/v1/audit-log", key=key)).status_code == 200
    assert (await gateway.get("/v1/api-keys", key=key)).status_code == 403
    rejected = await gateway.post(
        "/v1/api-keys", json={"subject": "x", "roles": ["platform-admin"]}
    )
    assert (rejected.status_code, rejected.json()["error"]["reason"]) == (
        403,
        "SCOPE_NOT_GRANTABLE",
    )


async def test_a_key_of_an_unexpected_tenant_is_reported(gateway: Gateway) -> None:
    assert (await gateway.get("/v1/models", headers={"x-podium-tenant": "acme"})).is_success
    reply = await gateway.get("/v1/models", headers={"x-podium-tenant": "umbrella"})
    assert (reply.status_code, reply.json()["error"]["reason"]) == (403, "WRONG_TENANT")
    assert "belongs to tenant acme, not umbrella" in reply.json()["error"]["message"]


async def test_the_last_use_of_a_key_is_known_when_the_gateway_has_ended(
    database: Database, tmp_path: Path
) -> None:
    async with run_gateway(url := await database("gateway"), tmp_path) as gateway:
        idle = await gateway.new_key()
        await status(gateway, gateway.key)
    rows = await fetch(url, "SELECT id, last_used_time FROM api_keys")
    last = {row["id"]: row["last_used_time"] for row in rows}
    assert last[idle.split("_")[1]] is None
    since = datetime.now(UTC) - last[gateway.key.split("_")[1]]
    assert timedelta(0) <= since < timedelta(minutes=5)


async def fetch(url: str, query: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        return list(await connection.fetch(query))
    finally:
        await connection.close()


@pytest.mark.parametrize("table", ["api_keys", "audit_entry", "audit_outcome"])
async def test_no_part_of_a_secret_is_in_the_database(gateway: Gateway, table: str) -> None:
    texts = [(await create(gateway, roles=["developer"]))["key"]]
    texts.append((await rotate(gateway, texts[0])).json()["key"])
    stored = str(await fetch(gateway.database_url, f"SELECT * FROM {table}"))
    assert texts[0].split("_")[1] in stored or table == "audit_outcome"
    assert not [text for text in texts if text.split("_", 2)[2] in stored]
