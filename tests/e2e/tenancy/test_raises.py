import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import uuid_utils

from e2e.tenancy.two_tenants import OWNER, STRANGER, TwoTenants

BUDGET = "/v1/budgets/of-a-launcher"


async def asked(client: httpx.AsyncClient) -> int:
    body = {
        "model": "podium",
        "messages": [{"role": "user", "content": "what is 6 x 7?"}],
        "podium": {"tools": ["calculator"]},
    }
    return (await client.post("/v1/chat/completions", json=body)).status_code


def a_raise(amount: str, length: timedelta | None, **fields: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "raise_id": str(uuid_utils.uuid7()),
        "amount": {"currency_code": "USD", "amount": amount},
        "reason": "launch",
    }
    if length:
        body["end_time"] = (datetime.now(UTC) + length).isoformat()
    return body | fields


async def test_a_raise_admits_calls_until_it_ends_and_is_made_once(tenants: TwoTenants) -> None:
    async with tenants.http(OWNER) as owner:
        made = await owner.post(
            "/v1/api-keys", json={"subject": "launcher", "roles": ["developer"]}
        )
        budget = {
            "id": "of-a-launcher",
            "scope": "BUDGET_SCOPE_USER",
            "scope_id": "launcher",
            "window": "BUDGET_WINDOW_TOTAL",
            "hard_limit": {"currency_code": "USD", "amount": "0"},
        }
        assert (await owner.post("/v1/budgets", json={"budget": budget})).is_success
        async with replace(tenants, keys={OWNER: made.json()["key"]}).http(OWNER) as launcher:
            assert await asked(launcher) == 402
            raised = a_raise("20", timedelta(days=1))
            forbidden = await launcher.post(f"{BUDGET}/raise", json=raised)
            assert forbidden.status_code == 403, forbidden.text
            for _ in range(2):
                reply = await owner.post(f"{BUDGET}/raise", json=raised)
                assert reply.is_success, reply.text
                assert reply.json()["budget"]["version"] == "2"
            assert await asked(launcher) == 200
            short = a_raise("20", timedelta(seconds=5))
            assert (await owner.post(f"{BUDGET}/raise", json=short)).is_success
            while (status := (await owner.get(BUDGET)).json()["status"])["budget"].get("raised"):
                await asyncio.sleep(0.2)
            assert status["limit"]["amount"] == "0"
            assert await asked(launcher) == 402
            # A retry that comes late does not begin it again.
            late = await owner.post(f"{BUDGET}/raise", json=short)
            assert "raised" not in late.json()["budget"], late.text
            assert await asked(launcher) == 402
        log = (await owner.get("/v1/audit-log", params={"action": "RaiseBudget"})).json()
    mine = [each for each in log["entries"] if each["resource"] == "of-a-launcher"]
    assert {each["outcome"] for each in mine} == {"done", "rejected"}
    assert mine[-1]["requested"]["reason"] == "launch"


async def test_a_raise_that_is_wrong_says_so_and_one_of_another_tenant_finds_nothing(
    tenants: TwoTenants,
) -> None:
    path = "/v1/budgets/never-raised/raise"
    budget = {
        "id": "never-raised",
        "scope": "BUDGET_SCOPE_TENANT",
        "window": "BUDGET_WINDOW_TOTAL",
        "hard_limit": {"currency_code": "USD", "amount": "100"},
    }
    async with tenants.http(OWNER) as owner, tenants.http(STRANGER) as stranger:
        assert (await owner.post("/v1/budgets", json={"budget": budget})).is_success
        theirs = await stranger.post(path, json=a_raise("20", timedelta(days=1)))
        assert theirs.status_code == 404, theirs.text
        for body, words in (
            (a_raise("20", timedelta(days=32)), "more than 31 days ahead; name an earlier one"),
            (a_raise("20", timedelta(days=-1)), "in the past; name a time"),
            (a_raise("20", None), "end_time is unset; a raise ends by itself"),
            (a_raise("-1", timedelta(days=1)), "is negative; update hard_limit"),
            (a_raise("20", timedelta(days=1), reason=""), "reason is empty; give it a value"),
            (a_raise("20", timedelta(days=1), raise_id="mine"), "a lower-case UUIDv7"),
        ):
            reply = await owner.post(path, json=body)
            assert reply.status_code == 400, reply.text
            assert words in reply.text
        status = (await owner.get(path.removesuffix("/raise"))).json()["status"]
    assert "raised" not in status["budget"]
