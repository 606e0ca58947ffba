"""The line of an expert follows its strength, in the prompt of any orchestrator and for a rule."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest_asyncio

from e2e.conftest import WholePlatform
from e2e.episodes_over_http import finished, start, trajectory
from openai_server import OpenAiServer

RECORD = re.compile(r"- ask_sages_\d+\(.*right in similar tasks: ([^\]]*)\]")
NUMBERS = itertools.count(12)
TOOLS = itertools.count(1)
CHECK = {"verifier": "exact", "parameters_json": '{"expected": "seven"}'}
# The right answer alone counts, so that no cost or latency of an expert has to be known.
POLICY = {
    "preferences": {"outcome": 1, "compute": 0, "latency": 0},
    "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT",
}

# Half of a worth is that of the cost.
THRIFTY = {**POLICY, "preferences": {"outcome": 1, "compute": 1, "latency": 0}}
EPISODES_MAX = 30

# By sage, how many answers were right, of how many.
Records = dict[str, tuple[int, int]]


@dataclass
class Sages:
    whole: WholePlatform
    client: httpx.AsyncClient
    admin: httpx.AsyncClient
    tool: str
    right: dict[str, bool] = field(default_factory=lambda: {"old": True, "young": False})

    async def asked(self, policy: str, sage: str, times: int) -> None:
        for _ in range(times):
            await self.run(policy, model=f"rule/always/{self.tool}/{sage}", check=CHECK)

    async def run(self, policy: str, **spec: Any) -> dict[str, Any]:
        task = f"Which remainder has {next(NUMBERS)} divided by {next(NUMBERS)}?"
        spec = {"tool_names": [self.tool], "policy": policy, **spec}
        episode_id = await start(self.client, task, **spec)
        assert (await finished(self.client, episode_id))["stop_reason"].endswith("ANSWERED")
        return await trajectory(self.client, episode_id)

    async def price(self, sage: str, dollars: str) -> None:
        """A thousand tokens that the sage reads cost as much from now on."""
        component = {
            "dimension": "USAGE_DIMENSION_INPUT_FRESH",
            "unit_price": dollars,
            "per": "1000",
        }
        spec = {"sku": f"{self.tool}/{sage}", "currency_code": "USD", "components": [component]}
        reply = await self.admin.post("/v1/prices", json={"specs": [spec]})
        assert reply.is_success, reply.text

    async def decided(self, policy: str) -> str:
        """The sage whom the rule asks first."""
        shown = await self.run(policy, model="rule/competence")
        sage: str = shown["turns"][0]["tool_invocations"][0]["model"]
        return sage

    async def until(self, policy: str, holds: Callable[[Records], bool]) -> Records:
        """Starts episodes without a check until the verdicts, which are read beside them, are."""
        async with asyncio.timeout(120):
            while not holds(found := await self.records(policy)):
                pass
        return found

    async def records(self, policy: str) -> Records:
        """The records, as right and similar tasks, that the prompt of a model states."""
        shown = await self.run(policy, tool_names=["calculator", self.tool])
        [system] = {
            each["messages"][0]["content"]
            for each in self.whole.model.requests
            if shown["task"] in each["messages"][-1]["content"]
        }
        stated = RECORD.search(system)
        parts = re.findall(r"(\w+) (\d+) of (\d+)", stated[1] if stated else "")
        # The trajectory has what the model saw.
        kept = {
            estimate["model_alias"]: estimate["competence"]
            for tool in shown["tools"]
            for estimate in tool.get("estimates", [])
            if estimate.get("competence", {}).get("similar_task_count")
        }
        found = {name: (int(right), int(similar)) for name, right, similar in parts}
        assert found == {
            name: (each.get("right_count", 0), each["similar_task_count"])
            for name, each in kept.items()
        }
        return found


@pytest_asyncio.fixture
async def sages(whole: WholePlatform) -> AsyncIterator[Sages]:
    admin_key = whole.connection.admin_key
    async with whole.client() as client, whole.client(admin_key) as admin:
        found = Sages(whole, client, admin, f"ask_sages_{next(TOOLS)}")
        with OpenAiServer(models=list(found.right)) as server:
            # More answers than the test asks for.
            server.push(*[lambda body: "seven" if found.right[body["model"]] else "nine"] * 200)
            models = [
                {
                    "alias": alias,
                    "model": alias,
                    "base_url": server.base_url,
                    "api": "LLM_API_OPENAI_CHAT",
                    "sku": f"{found.tool}/{alias}",
                }
                for alias in found.right
            ]
            tool = {
                "name": found.tool,
                "kind": "TOOL_KIND_LLM",
                "description": "Asks a sage.",
                "side_effect": "SIDE_EFFECT_PURE",
                "parameters_json_schema": '{"type": "object"}',
                "connection": {"llm": {"role": "LLM_ROLE_GENERALIST", "models": models}},
            }
            registered = await admin.post("/v1/tools", json={"spec": tool, "shared": True})
            assert registered.is_success, registered.text
            policies = (
                {"name": "sages-open", "training_consent": True, **POLICY},
                {"name": "sages-closed", **POLICY},
                {"name": "sages-thrifty", "training_consent": True, **THRIFTY},
            )
            for spec in policies:
                created = await client.post("/v1/policies", json={"spec": spec})
                assert created.is_success, created.text
            yield found
            assert (await admin.delete(f"/v1/tools/{found.tool}")).is_success


async def test_the_line_of_an_expert_that_changes_moves_within_thirty_episodes(
    sages: Sages,
) -> None:
    assert await sages.records("sages-open") == {}
    await sages.asked("sages-open", "old", 10)
    # Without consent nothing is learnt, and what others consented to is stated all the same.
    await sages.asked("sages-closed", "young", 10)
    found = await sages.until("sages-closed", bool)
    assert set(found) == {"old"} and found["old"][0] == found["old"][1]

    sages.right = {"old": False, "young": True}
    await sages.asked("sages-open", "old", 15)
    await sages.asked("sages-open", "young", 15)
    await sages.until("sages-open", lambda found: share(found["old"]) < 0.5)
    await sages.until("sages-open", lambda found: "young" in found and share(found["young"]) == 1)
    assert await sages.decided("sages-open") == "young"


async def test_a_rule_follows_the_price_of_an_expert_within_thirty_episodes(sages: Sages) -> None:
    sages.right = {"old": True, "young": True}
    for sage, dollars in (("old", "1"), ("young", "0.01")):
        await sages.price(sage, dollars)
        await sages.asked("sages-thrifty", sage, 10)
    await sages.until("sages-thrifty", lambda found: set(found) == {"old", "young"})
    assert await sages.decided("sages-thrifty") == "young"

    await sages.price("young", "100")
    decided = [await sages.decided("sages-thrifty") for _ in range(EPISODES_MAX)]
    assert decided[-1] == "old", decided


def share(record: tuple[int, int]) -> float:
    right, similar = record
    return right / similar
