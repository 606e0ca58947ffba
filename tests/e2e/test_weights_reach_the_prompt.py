"""Two policies that differ in weights alone give the model different prompts."""

import re
from typing import Any

from e2e.conftest import WholePlatform
from e2e.episodes_over_http import finished, start

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
    """The messages of an episode's first turn under a policy with these weights."""
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
