import asyncio
from typing import Any

import httpx

from e2e.episodes_over_http import finished, start, trajectory
from e2e.tenancy.two_tenants import OWNER, STRANGER, TwoTenants

CHECK = {"verifier": "numeric", "parameters_json": '{"expected": 42}'}
POLICY = {
    "name": "learns",
    "training_consent": True,
    "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT",
}


async def test_what_a_tool_was_right_about_is_known_to_its_own_tenant_alone(
    tenants: TwoTenants,
) -> None:
    async with tenants.http(OWNER) as owner, tenants.http(STRANGER) as stranger:
        for client in (owner, stranger):
            created = await client.post("/v1/policies", json={"spec": POLICY})
            assert created.is_success, created.text
        for _ in range(8):
            await played(owner, check=CHECK)
        # The stranger's own verdict is read as the owner's are.
        await played(stranger, check=CHECK)
        # Verdicts are read beside the starts of episodes.
        async with asyncio.timeout(120):
            while not competence(await played(owner)).get("similar_task_count"):
                pass
            while not (known := competence(await played(stranger))):
                pass
        assert known["similar_task_count"] == 0


async def played(client: httpx.AsyncClient, **spec: Any) -> dict[str, Any]:
    episode_id = await start(client, "what is 6 x 7, for one of us?", policy="learns", **spec)
    await finished(client, episode_id)
    return await trajectory(client, episode_id)


def competence(seen: dict[str, Any]) -> dict[str, Any]:
    [tool] = seen["tools"]
    found: dict[str, Any] = tool["estimates"][0].get("competence", {})
    return found
