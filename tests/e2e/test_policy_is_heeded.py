"""A policy that changes while an episode runs: the real registry rejects the very next call."""

import asyncio
from typing import Any

import httpx

from e2e.conftest import PAUSED_TASK, WholePlatform
from e2e.episodes_over_http import entries, finished, start, trajectory

POLICY = {"name": "heeded", "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT"}


async def test_a_call_the_new_version_denies_is_rejected_and_costs_nothing(
    whole: WholePlatform,
) -> None:
    async with whole.client() as client:
        await publish(client, POLICY)
        episode_id = await start(client, task=PAUSED_TASK, policy="heeded")
        await first_call_made(client, episode_id)
        await publish(client, {**POLICY, "deny": {"names": ["calculator"]}})
        episode = await finished(client, episode_id)
        found = await trajectory(client, episode_id)
        charged = await entries(client, episode_id)
    assert episode["stop_reason"] == "STOP_REASON_ANSWERED"
    assert episode["policy_version"] == 1
    first, second = (observations(turn) for turn in found["turns"][:2])
    assert "42" in first[0]["content"]
    # The model sees the rejection as the failure of its call, and continues.
    assert second[0]["failure"]["kind"] == "FAILURE_KIND_DENIED_BY_POLICY"
    assert "denied by name calculator" in second[0]["failure"]["message"]
    # Three decisions of the model and the one call that was made.
    assert len(charged) == 4


async def publish(client: httpx.AsyncClient, spec: dict[str, Any]) -> None:
    reply = await client.post("/v1/policies", json={"spec": spec})
    assert reply.is_success, reply.text


async def first_call_made(client: httpx.AsyncClient, episode_id: str) -> None:
    while True:
        reply = (await client.get(f"/v1/episodes/{episode_id}")).json()
        if reply["episode"].get("tool_call_count"):
            return
        await asyncio.sleep(0.05)


def observations(turn: dict[str, Any]) -> list[dict[str, Any]]:
    return [call["observation"] for call in turn["tool_invocations"]]
