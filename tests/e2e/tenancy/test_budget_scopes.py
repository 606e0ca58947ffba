from dataclasses import replace
from typing import Any

import httpx
import pytest

from e2e.conftest import MODEL
from e2e.tenancy.two_tenants import OWNER, TwoTenants

TASK = {
    "model": "podium",
    "messages": [{"role": "user", "content": "what is 6 x 7?"}],
    "podium": {"tools": ["calculator"]},
}


async def new_key(owner: httpx.AsyncClient, subject: str) -> dict[str, Any]:
    made = await owner.post("/v1/api-keys", json={"subject": subject, "roles": ["developer"]})
    assert made.is_success, made.text
    found: dict[str, Any] = made.json()
    return found


def of_nothing(id: str, scope: str, scope_id: str) -> dict[str, Any]:
    return {
        "id": id,
        "scope": f"BUDGET_SCOPE_{scope}",
        "scope_id": scope_id,
        "window": "BUDGET_WINDOW_TOTAL",
        "hard_limit": {"currency_code": "USD", "amount": "0"},
    }


async def test_a_key_without_budget_calls_nothing_also_when_it_is_rotated_and_another_key_does(
    tenants: TwoTenants,
) -> None:
    async with tenants.http(OWNER) as owner:
        poor, rich = await new_key(owner, "keyed"), await new_key(owner, "keyed")
        budget = of_nothing("of-a-key", "KEY", poor["api_key"]["id"])
        assert (await owner.post("/v1/budgets", json={"budget": budget})).is_success
        rotated = await owner.post(f"/v1/api-keys/{poor['api_key']['id']}/rotate", json={})
        assert rotated.is_success, rotated.text
        for key, code in ((poor, 402), (rotated.json(), 402), (rich, 200)):
            async with replace(tenants, keys={OWNER: key["key"]}).http(OWNER) as client:
                # No label leaves the budget.
                body = TASK | {"metadata": {"key": "none"}}
                reply = await client.post("/v1/chat/completions", json=body)
                assert reply.status_code == code, reply.text


@pytest.mark.parametrize(("scope", "scope_id"), [("TOOL", MODEL), ("MODEL", MODEL)])
async def test_the_orchestrator_says_nothing_where_the_budget_of_its_model_is_spent(
    tenants: TwoTenants, scope: str, scope_id: str
) -> None:
    async with tenants.http(OWNER) as owner:
        id = f"of-a-{scope.lower()}"
        made = await owner.post("/v1/budgets", json={"budget": of_nothing(id, scope, scope_id)})
        assert made.is_success, made.text
        try:
            reply = await owner.post("/v1/chat/completions", json=TASK)
            assert reply.status_code == 402, reply.text
            assert id in reply.text
        finally:
            assert (await owner.post(f"/v1/budgets/{id}/close", json={})).is_success
        assert (await owner.post("/v1/chat/completions", json=TASK)).status_code == 200


async def test_a_tool_whose_budget_is_spent_is_not_called_and_the_episode_goes_on(
    tenants: TwoTenants,
) -> None:
    async with tenants.http(OWNER) as owner:
        budget = of_nothing("of-the-calculator", "TOOL", "calculator")
        assert (await owner.post("/v1/budgets", json={"budget": budget})).is_success
        try:
            reply = await owner.post("/v1/chat/completions", json=TASK)
        finally:
            closed = await owner.post("/v1/budgets/of-the-calculator/close", json={})
            assert closed.is_success
        assert reply.status_code == 200, reply.text
        entries = await owner.get(
            "/v1/entries", params={"episode_id": reply.json()["podium"]["episode_id"]}
        )
    tools = {entry["subject"]["tool"] for entry in entries.json()["entries"]}
    assert tools == {MODEL}
