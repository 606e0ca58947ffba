"""Saved views: names and filters that people store for themselves or for their tenant."""

from typing import Any

import httpx

from gateway.views.routes import VIEWS_MAX
from integration.gateway.gateway_under_test import Gateway
from podium_kit.rpc.identity import Scope

READER = [Scope.SPEND_READ]


async def saved(gateway: Gateway, key: str, **view: Any) -> httpx.Response:
    body = {"name": "costly", "query": "sort=cost&range=day", **view}
    return await gateway.post("/v1/views", key=key, json=body)


async def listed(gateway: Gateway, key: str) -> list[dict[str, Any]]:
    reply = await gateway.get("/v1/views", key=key)
    assert reply.is_success, reply.text
    found: list[dict[str, Any]] = reply.json()["views"]
    return found


async def test_a_view_is_its_owners_and_a_shared_one_everybodys_in_the_tenant(
    gateway: Gateway,
) -> None:
    ada = await gateway.new_key(scopes=READER)
    bob = await gateway.new_key(scopes=READER, subject="bob")
    rival = await gateway.new_key("rival", scopes=READER)
    assert (await saved(gateway, ada)).is_success
    assert (await saved(gateway, ada, name="<b>failed</b>", shared=True)).is_success
    own = await listed(gateway, ada)
    assert [view["name"] for view in own] == ["costly", "<b>failed</b>"]
    assert (own[0]["query"], own[0]["saved_by"], own[0]["deletable"]) == (
        "sort=cost&range=day",
        "ada",
        True,
    )
    [shared] = await listed(gateway, bob)
    assert (shared["name"], shared["deletable"]) == ("<b>failed</b>", False)
    assert await listed(gateway, rival) == []


async def test_owners_delete_their_views_and_admins_shared_ones(gateway: Gateway) -> None:
    ada = await gateway.new_key(scopes=READER)
    bob = await gateway.new_key(scopes=READER, subject="bob")
    boss = await gateway.new_key(scopes=[Scope.TENANT_ADMIN], subject="boss")
    rival = await gateway.new_key("rival", scopes=[Scope.TENANT_ADMIN])
    own = (await saved(gateway, ada)).json()["id"]
    shared = (await saved(gateway, ada, shared=True)).json()["id"]
    for view, key, status in (
        (own, boss, 404),
        (shared, bob, 404),
        (shared, rival, 404),
        (own, ada, 204),
        (own, ada, 404),
        (shared, boss, 204),
    ):
        assert (await gateway.delete(f"/v1/views/{view}", key=key)).status_code == status
    assert await listed(gateway, ada) == []


async def test_views_are_bounded_in_number_and_size(gateway: Gateway) -> None:
    ada = await gateway.new_key(scopes=READER)
    for view in ({"name": ""}, {"name": "x" * 81}, {"query": "x" * 2001}, {"name": "a\0b"}):
        assert (await saved(gateway, ada, **view)).status_code == 400
    for number in range(VIEWS_MAX):
        assert (await saved(gateway, ada, name=f"view {number}")).is_success
    full = await saved(gateway, ada)
    assert full.status_code == 429
    assert "delete one first" in full.json()["error"]["message"]
    bob = await gateway.new_key(scopes=READER, subject="bob")
    assert (await saved(gateway, bob)).is_success
