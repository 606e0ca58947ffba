import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import openai
import pytest

from callers import make_identity
from embedded_servers import Database
from gateway.config import DatabaseSettings
from gateway.keys.models import KeyRequest
from gateway.keys.offline import api_keys
from integration.gateway.gateway_under_test import Gateway, run_gateway
from podium_kit.rpc.identity import Scope, acting_as
from podium_kit.rpc.pages import encode_page_token


@pytest.mark.parametrize("key", ["sk-nonsense", "pod_0011_abc", "pod_", "pod__"])
async def test_a_wrong_key_is_401_with_a_helpful_message(gateway: Gateway, key: str) -> None:
    async with gateway.openai(key) as client:
        with pytest.raises(openai.AuthenticationError, match="check that it was copied whole"):
            await client.models.list()


async def test_a_key_with_another_secret_is_401(gateway: Gateway) -> None:
    prefix, key_id, _ = gateway.key.split("_", 2)
    other = (await gateway.new_key()).split("_", 2)[2]
    reply = await gateway.get("/v1/models", key=f"{prefix}_{key_id}_{other}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")


async def test_no_key_is_401(gateway: Gateway) -> None:
    reply = await gateway.get("/v1/models", headers={"authorization": ""})
    assert reply.status_code == 401
    assert "Authorization: Bearer" in reply.json()["error"]["message"]


async def test_a_revoked_key_is_401_at_once_on_this_replica(gateway: Gateway) -> None:
    other = await gateway.new_key()
    async with gateway.http() as http, gateway.http(other) as theirs:
        assert (await theirs.get("/v1/models")).status_code == 200
        revoked = await http.post(f"/v1/api-keys/{other.split('_')[1]}/revoke")
        assert revoked.json()["api_key"]["revoke_time"]
        reply = await theirs.get("/v1/models")
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "revoked_api_key")


async def test_an_expired_key_is_401(gateway: Gateway) -> None:
    async with api_keys(DatabaseSettings(database_url=gateway.database_url)) as keys:
        # A busy machine needs a while to issue it.
        soon = datetime.now(UTC) + timedelta(seconds=3)
        wanted = KeyRequest("acme", "ada", frozenset({Scope.TENANT_ADMIN}), expire_time=soon)
        with acting_as(make_identity()):
            _, key = await keys.issue(wanted)
    while (reply := await gateway.get("/v1/models", key=key)).is_success:
        await asyncio.sleep(0.05)
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "expired_api_key")


async def test_an_admin_creates_a_key_that_works_and_lists_it_without_secret(
    gateway: Gateway,
) -> None:
    made = await gateway.post("/v1/api-keys", json={"subject": "robot", "scopes": ["episodes:run"]})
    listed = await gateway.get("/v1/api-keys")
    key = made.json()["key"]
    assert key.split("_", 2)[2] not in listed.text
    assert made.json()["api_key"] in listed.json()["api_keys"]
    assert (await gateway.get("/v1/models", key=key)).status_code == 200
    rejected = await gateway.get("/v1/api-keys", key=key)
    assert (rejected.status_code, rejected.json()["error"]["type"]) == (403, "permission_error")


async def test_keys_are_listed_page_by_page(gateway: Gateway) -> None:
    for _ in range(2):
        await gateway.new_key()
    first = (await gateway.get("/v1/api-keys?page_size=2")).json()
    rest = (
        await gateway.get("/v1/api-keys", params={"page_token": first["next_page_token"]})
    ).json()
    ids = [key["id"] for page in (first, rest) for key in page["api_keys"]]
    assert len(ids) == len(set(ids)) == 3


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"subject": "x", "scopes": ["platform:admin"]}, 403, "cannot grant"),
        ({"subject": "x", "scopes": ["ledger:write"]}, 400, "unknown scope"),
        ({"subject": "x", "scopes": ["tools:follow"]}, 400, "unknown scope"),
        ({"subject": "x", "scopes": []}, 400, "at least 1"),
        ({"subject": " ", "scopes": ["episodes:run"]}, 400, "1 to 128"),
        ({"subject": "a\x07", "scopes": ["episodes:run"]}, 400, "printable"),
        (
            {"subject": "x", "scopes": ["episodes:run"], "expire_time": "2001-01-01T00:00:00Z"},
            400,
            "passed already",
        ),
    ],
)
async def test_a_key_that_must_not_exist_is_rejected(
    gateway: Gateway, body: dict[str, object], status: int, words: str
) -> None:
    reply = await gateway.post("/v1/api-keys", json=body)
    assert reply.status_code == status
    assert words in reply.json()["error"]["message"]


@pytest.mark.parametrize("key_id", ["0" * 16, "nonsense"])
async def test_an_unknown_key_cannot_be_revoked(gateway: Gateway, key_id: str) -> None:
    reply = await gateway.post(f"/v1/api-keys/{key_id}/revoke")
    assert (reply.status_code, reply.json()["error"]["reason"]) == (404, "API_KEY_NOT_FOUND")


async def test_a_forged_page_token_is_rejected(gateway: Gateway) -> None:
    token = encode_page_token({"after_id": "\0"})
    reply = await gateway.get("/v1/api-keys", params={"page_token": token})
    assert (reply.status_code, reply.json()["error"]["reason"]) == (400, "INVALID_PAGE_TOKEN")


async def test_another_tenants_key_is_not_found(gateway: Gateway) -> None:
    other = await gateway.new_key("umbrella")
    reply = await gateway.post(f"/v1/api-keys/{other.split('_')[1]}/revoke")
    assert reply.status_code == 404


async def test_a_tenant_with_too_many_open_requests_is_429_until_one_ends(
    database: Database, tmp_path: Path
) -> None:
    async with run_gateway(await database("gateway"), tmp_path, request_concurrency=1) as gateway:
        gateway.episodes.script = lambda request: []
        body = {"model": "podium", "messages": [{"role": "user", "content": "wait"}]}
        async with gateway.http() as http:
            waiting = asyncio.create_task(http.post("/v1/chat/completions", json=body))
            while not gateway.episodes.watching:
                await asyncio.sleep(0.01)
            rejected = await http.get("/v1/models")
            assert (rejected.status_code, rejected.headers["retry-after"]) == (429, "1")
            waiting.cancel()
            while (await http.get("/v1/models")).status_code == 429:
                await asyncio.sleep(0.01)
