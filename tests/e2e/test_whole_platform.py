import asyncio
import json
import sys
from decimal import Decimal

from e2e.conftest import SLOW_TASK, WholePlatform
from e2e.episodes_over_http import entries, finished, new_id, start, trajectory


async def test_real_tool_answers_the_model_and_the_episode_ends(whole: WholePlatform) -> None:
    async with whole.client() as client:
        episode = await finished(client, await start(client))
        found = await trajectory(client, episode["id"])
    assert episode["answer"] == "42"
    results = [
        call["observation"]["content"]
        for turn in found["turns"]
        for call in turn.get("tool_invocations", [])
    ]
    assert len(results) == 2
    assert all("42" in content for content in results)


async def test_every_trajectory_costs_what_the_ledger_says_to_the_last_digit(
    whole: WholePlatform,
) -> None:
    async with whole.client() as client:
        ids = [await start(client, task=f"sum number {number}") for number in range(5)]
        for episode_id in ids:
            episode = await finished(client, episode_id)
            found = await trajectory(client, episode_id)
            charged = [Decimal(e["amount"]["amount"]) for e in await entries(client, episode_id)]
            assert Decimal(found["cost"]["amount"]) == sum(charged) > 0
            assert Decimal(episode["cost"]["amount"]) == sum(charged)
            assert len(charged) == 5


async def test_cancel_stops_the_running_model_call_and_leaves_no_hold(whole: WholePlatform) -> None:
    def calls() -> int:
        return sum(SLOW_TASK in json.dumps(body) for body in whole.model.requests)

    before, calls_before = whole.model.disconnects, calls()
    async with whole.client() as client:
        episode_id = await start(client, task=SLOW_TASK)
        # An episode of another test may have a call in flight, too.
        await whole.model.until(lambda: calls() > calls_before)
        await client.post(f"/v1/episodes/{episode_id}/cancel", json={"reason": "test"})
        episode = await finished(client, episode_id)
    assert episode["stop_reason"] == "STOP_REASON_CANCELLED"
    await whole.model.until(lambda: whole.model.disconnects == before + 1)


async def test_episode_of_another_tenant_does_not_exist(whole: WholePlatform) -> None:
    async with whole.client() as client:
        episode_id = await start(client)
    async with whole.client(await _key_of_rival(whole)) as rival:
        for path in ("", "/trajectory"):
            reply = await rival.get(f"/v1/episodes/{episode_id}{path}")
            assert reply.status_code == 404, reply.text
        assert not (await rival.get("/v1/episodes")).json().get("episodes")


async def test_retried_start_runs_once(whole: WholePlatform) -> None:
    episode_id = new_id()
    body = {"episode_id": episode_id, "spec": {"task": "once", "tool_names": ["calculator"]}}
    async with whole.client() as client:
        replies = await asyncio.gather(*(client.post("/v1/episodes", json=body) for _ in range(4)))
        assert [reply.status_code for reply in replies] == [200] * 4
        episode = await finished(client, episode_id)
        assert len(await entries(client, episode["id"])) == 5


async def _key_of_rival(whole: WholePlatform) -> str:
    command = [sys.executable, "-m", "gateway", "keys", "create", "--tenant", "rival"]
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--subject", "eve", "--scopes", "tenant:admin"),
        env={"GATEWAY_DATABASE_URL": whole.platform.dsn["gateway"]},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    return output.decode().split()[-1]
