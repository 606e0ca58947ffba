import asyncio
import re
from typing import Any

import httpx

from e2e.conftest import FINDING_TASK, PAUSED_TASK, WholePlatform
from e2e.episodes_over_http import entries, finished, start, trajectory


async def test_a_tool_that_was_not_offered_is_found_and_called(whole: WholePlatform) -> None:
    async with whole.client() as client:
        episode_id = await start(client, task=FINDING_TASK, tool_names=[])
        episode = await finished(client, episode_id)
        found = await trajectory(client, episode_id)
        charged = await entries(client, episode_id)
    assert episode["answer"] == "42"
    looked, used = (only_call(turn) for turn in found["turns"][:2])
    assert "calculator" in [tool["name"] for tool in looked["found_tools"]]
    assert "calculator: Calculates exactly" in looked["observation"]["content"]
    assert used["observation"]["content"] == "42"
    # The first prompt lists eight tools and find_tools, without the calculator; later ones have it.
    prompts = [
        each["messages"][0]["content"]
        for each in whole.model.requests
        if FINDING_TASK in each["messages"][-1]["content"]
    ]
    assert ["- calculator(" in prompt for prompt in prompts] == [False, True, True]
    assert prompts[0].count("\n- ") == 9 and "\n- find_tools(query: string) [$0]: " in prompts[0]
    # Three decisions of the model and the call of the calculator: finding it was free.
    assert len(charged) == 4


def only_call(turn: dict[str, Any]) -> dict[str, Any]:
    [call] = turn["tool_invocations"]
    return dict(call)


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


TASK = "what is 6 x 7, weighed?"
CHEAP = {"outcome": 1, "compute": 0.8, "latency": 0.1, "tools": {"calculator": 0.5}}
QUICK = {"outcome": 1, "compute": 0, "latency": 0.8, "tools": {"calculator": 0}}
# What the clock and measurements change from one episode to the next.
MEASURED = re.compile(r"[\d.-]+ s\b|latency unknown|, (?:under )?\d+%")


async def test_weights_are_all_that_differs(whole: WholePlatform) -> None:
    cheap = await first_prompt(whole, "weighs-cost", CHEAP)
    quick = await first_prompt(whole, "weighs-time", QUICK)
    assert "Weights: outcome 1, cost 0.8, latency 0.1, calculator 0.5. Left: $0.5, " in cheap[-1]
    assert "Weights: outcome 1, cost 0, latency 0.8. Left: $0.5, " in quick[-1]
    assert re.search(
        r"- calculator\(expression: string\) \[\$0\.000001, .+, weight 0\.5\]", cheap[0]
    )
    assert re.search(r"- calculator\(expression: string\) \[\$0\.000001, .+, weight 0\]", quick[0])
    assert [without_weights(text) for text in cheap] == [without_weights(text) for text in quick]


async def first_prompt(whole: WholePlatform, policy: str, weights: dict[str, Any]) -> list[str]:
    task = f"{TASK} ({policy})"
    spec = {"name": policy, "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT", "preferences": weights}
    async with whole.client() as client:
        reply = await client.post("/v1/policies", json={"spec": spec})
        assert reply.is_success, reply.text
        budget = {"currency_code": "USD", "amount": "0.5"}
        episode_id = await start(client, task=task, policy=policy, budget=budget)
        await finished(client, episode_id)
    asked = [[message["content"] for message in each["messages"]] for each in whole.model.requests]
    found = next(texts for texts in asked if task in texts[-1])
    return [text.replace(f" ({policy})", "") for text in found]


def without_weights(text: str) -> str:
    text = re.sub(r"Weights: [^L]*?\. Left", "Left", text)
    text = re.sub(r" A right answer is worth, [^\n]*", "", text)
    return MEASURED.sub("", re.sub(r", weight [\d.]+\]", "]", text))
