from pathlib import Path
from typing import Any

from embedded_servers import Database
from integration.gateway.gateway_under_test import Gateway, run_gateway
from podium_kit.rpc.identity import Scope


def key_id(key: str) -> str:
    return key.split("_")[1]


async def ask(gateway: Gateway, key: str, path: str, **headers: str) -> int:
    return (await gateway.get(path, headers=headers, key=key)).status_code


async def attempts_of(gateway: Gateway, tenant: str = "acme") -> list[dict[str, Any]]:
    reply = await gateway.get(
        "/v1/audit-log",
        params={"action": "Attempt", "page_size": 500},
        key=await gateway.new_key(tenant),
    )
    entries: list[dict[str, Any]] = reply.json()["entries"]
    return entries


async def test_attempts_are_kept_with_their_reason_and_counted(
    database: Database, tmp_path: Path
) -> None:
    url = await database("gateway")
    async with run_gateway(url, tmp_path, key_cache_s=0) as gateway:
        small = await gateway.new_key(scopes=[Scope.EPISODES_RUN])
        revoked = await gateway.new_key()
        await gateway.post(f"/v1/api-keys/{key_id(revoked)}/revoke")
        guessed = f"pod_{key_id(small)}_{'x' * 43}"
        for _ in range(3):
            assert await ask(gateway, revoked, "/v1/models") == 401
        assert await ask(gateway, guessed, "/v1/models") == 401
        assert await ask(gateway, small, "/v1/models", **{"x-podium-tenant": "umbrella"}) == 403
        assert await ask(gateway, small, "/v1/audit-log") == 403
        assert await ask(gateway, small, "/v1/episodes") == 200
        # A change that was rejected has an entry of its own, and a stranger's key no tenant.
        await gateway.post("/v1/tools", json={"spec": {"name": "weather"}}, key=small)
        assert await ask(gateway, f"pod_{'0' * 16}_{'x' * 43}", "/v1/models") == 401
    # The gateway that ended has written what it counted.
    async with run_gateway(url, tmp_path) as gateway:
        entries = await attempts_of(gateway)
        assert await attempts_of(gateway, "umbrella") == []
    found = {
        (entry["rejection"], entry["credential"], entry["resource"]): entry["requested"]["attempts"]
        for entry in entries
    }
    assert found == {
        ("REVOKED_API_KEY", f"api-key {key_id(revoked)}", "GET /v1/models"): 3,
        ("INVALID_API_KEY", f"api-key {key_id(small)}", "GET /v1/models"): 1,
        ("WRONG_TENANT", f"api-key {key_id(small)}", "GET /v1/models"): 1,
        ("SCOPE_MISSING", f"api-key {key_id(small)}", "GET /v1/audit-log"): 1,
    }
    assert {(entry["subject"], entry["outcome"]) for entry in entries} == {("ada", "rejected")}
    assert "x" * 43 not in str(entries)


async def test_nobody_fills_the_log(database: Database, tmp_path: Path) -> None:
    url = await database("gateway")
    async with run_gateway(url, tmp_path) as gateway:
        known = [key_id(await gateway.new_key()) for _ in range(25)]
        for n, name in enumerate(known * 4):
            headers = {"authorization": f"Bearer pod_{name}_{n:043}"}
            reply = await gateway.get(f"/v1/models/{'a' * 5000}", headers=headers, key="")
            assert reply.status_code == 401
    async with run_gateway(url, tmp_path) as gateway:
        entries = await attempts_of(gateway)
    assert len(entries) == 21
    assert sum(entry["requested"]["attempts"] for entry in entries) == 100
    assert [e["subject"] for e in entries if e["rejection"] == "OTHERS"] == [""]
    assert max(len(entry["resource"]) for entry in entries) == 200
