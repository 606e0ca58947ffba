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

TOOL = "ask_sages"
RECORD = re.compile(rf"- {TOOL}\(.*right in similar tasks: ([^\]]*)\]")
NUMBERS = itertools.count(12)
CHECK = {"verifier": "exact", "parameters_json": '{"expected": "seven"}'}
# The right answer alone counts, so that no cost or latency of an expert has to be known.
POLICY = {
    "preferences": {"outcome": 1, "compute": 0, "latency": 0},
    "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT",
}

# By sage, how many answers were right, of how many.
Records = dict[str, tuple[int, int]]


@dataclass
class Sages:
    whole: WholePlatform
    client: httpx.AsyncClient
    right: dict[str, bool] = field(default_factory=lambda: {"old": True, "young": False})

    async def asked(self, policy: str, sage: str, times: int) -> None:
        for _ in range(times):
            await self.run(policy, model=f"rule/always/{TOOL}/{sage}", check=CHECK)

    async def run(self, policy: str, **spec: Any) -> dict[str, Any]:
        task = f"Which remainder has {next(NUMBERS)} divided by {next(NUMBERS)}?"
        spec = {"tool_names": [TOOL], "policy": policy, **spec}
        episode_id = await start(self.client, task, **spec)
        assert (await finished(self.client, episode_id))["stop_reason"].endswith("ANSWERED")
        return await trajectory(self.client, episode_id)

    async def until(self, policy: str, holds: Callable[[Records], bool]) -> Records:
        """Starts episodes without a check until the verdicts, which are read beside them, are."""
        async with asyncio.timeout(120):
            while not holds(found := await self.records(policy)):
                pass
        return found

    async def records(self, policy: str) -> Records:
        """The records, as right and similar tasks, that the prompt of a model states."""
        shown = await self.run(policy, tool_names=["calculator", TOOL])
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
    async with whole.client() as client:
        found = Sages(whole, client)
        with OpenAiServer(models=list(found.right)) as server:
            # More answers than the test asks for.
            server.push(*[lambda body: "seven" if found.right[body["model"]] else "nine"] * 200)
            models = [
                {
                    "alias": alias,
                    "model": alias,
                    "base_url": server.base_url,
                    "api": "LLM_API_OPENAI_CHAT",
                }
                for alias in found.right
            ]
            tool = {
                "name": TOOL,
                "kind": "TOOL_KIND_LLM",
                "description": "Asks a sage.",
                "side_effect": "SIDE_EFFECT_PURE",
                "parameters_json_schema": '{"type": "object"}',
                "connection": {"llm": {"role": "LLM_ROLE_GENERALIST", "models": models}},
            }
            async with whole.client(whole.connection.admin_key) as admin:
                registered = await admin.post("/v1/tools", json={"spec": tool, "shared": True})
                assert registered.is_success, registered.text
                for name, consent in (("open", True), ("closed", False)):
                    spec = {"name": f"sages-{name}", "training_consent": consent, **POLICY}
                    created = await client.post("/v1/policies", json={"spec": spec})
                    assert created.is_success, created.text
                yield found
                assert (await admin.delete(f"/v1/tools/{TOOL}")).is_success


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
    decided = await sages.run("sages-open", model="rule/competence")
    assert [call["model"] for call in decided["turns"][0]["tool_invocations"]] == ["young"]


def share(record: tuple[int, int]) -> float:
    right, similar = record
    return right / similar
