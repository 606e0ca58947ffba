"""A guardrail with a price: each question is a part of the cost and budget of the call it reads."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest_asyncio

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_clamping import (
    careless,
    entries,
    run,
    trajectory,
    whole_call,
)
from openai_server import OpenAiServer
from servers.guardrail_server import GuardrailServer, running_guardrail_server

__all__ = ["whole_call"]
QUESTION = Decimal("0.0007")
CALCULATE = json.dumps({"thought": "", "tool": "calculator", "arguments": {"expression": "6 * 7"}})
ANSWER = json.dumps({"answer": "42"})
POLICY = """
name: paid-guardrail
preset: balanced
unknown_price: admit
guardrails:
  - {{name: flowers, action: block, http: {{url: "{url}", sku: guardrails/paid, timeout: 10s}}}}
"""
PRICES = "sku,dimension,unit_price\nguardrails/paid,call,0.0007\n"


@pytest_asyncio.fixture
async def guard(
    podium: CommandLine, whole_call: Decimal, tmp_path: Path
) -> AsyncIterator[GuardrailServer]:
    async with running_guardrail_server() as server:
        policy, prices = tmp_path / "paid.yaml", tmp_path / "paid.csv"
        policy.write_text(POLICY.format(url=server.url))
        prices.write_text(PRICES)
        for command in (
            ("policies", "apply", "-f", str(policy)),
            ("prices", "import", str(prices)),
        ):
            made = await asyncio.to_thread(podium, *command)
            assert made.returncode == 0, made.stderr
        yield server


async def ran(podium: CommandLine, *options: str) -> dict[str, Any]:
    return await asyncio.to_thread(run, podium, "--policy", "paid-guardrail", *options)


def questions(posted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in posted if each["subject"]["tool"] == "guardrail flowers"]


async def test_what_guardrails_cost_is_in_the_episode_and_explained(
    podium: CommandLine, model: OpenAiServer, guard: GuardrailServer
) -> None:
    model.push(careless(CALCULATE), careless(ANSWER))
    episode = await ran(podium)
    assert [each["stage"] for each in guard.asked] == ["input", "output", "answer"]
    posted = entries(podium, episode, "CAPTURE")
    asked = questions(posted)
    assert [Decimal(each["amount"]["amount"]) for each in asked] == [QUESTION] * 3
    charged = [Decimal(each["amount"]["amount"]) for each in posted if each.get("amount")]
    assert Decimal(episode["cost"]["amount"]) == sum(charged) > 3 * QUESTION
    for each in asked:
        model_or_tool = next(one for one in posted if each["key"].startswith(f"{one['key']}/"))
        assert each["policy_version"] == model_or_tool["policy_version"]
        assert each["subject"]["user"] == model_or_tool["subject"]["user"]
    held = {each["key"] for each in questions(entries(podium, episode, "RESERVE"))}
    released = {each["key"] for each in questions(entries(podium, episode, "RELEASE"))}
    # An answer was possible in the first turn, too.
    assert released == {f"{episode['id']}/1/model/0/guardrail/answer/0"}
    assert held == released | {each["key"] for each in asked}
    first, last = trajectory(podium, episode)["turns"]
    [call] = first["tool_invocations"]
    assert Decimal(call["cost"]["amount"]) >= 2 * QUESTION
    [decision] = last["model_call"]["guardrails"]
    key = decision["ledger_key"]
    explained = (await asyncio.to_thread(podium.json, "audit", "explain", key))["explanation"]
    assert "guardrails/paid" in json.dumps(explained)


async def test_the_budget_of_an_episode_covers_its_guardrails(
    podium: CommandLine, model: OpenAiServer, guard: GuardrailServer, whole_call: Decimal
) -> None:
    model.push(CALCULATE, ANSWER)
    budget = 2 * QUESTION - Decimal("0.0001")
    assert whole_call < budget - QUESTION
    episode = await ran(podium, "--budget", f"{budget:f}")
    # Two questions of the calculator's are not covered, one of the answer is.
    assert [each["stage"] for each in guard.asked] == ["answer"]
    [call] = trajectory(podium, episode)["turns"][0]["tool_invocations"]
    assert call["observation"]["failure"]["kind"] == "FAILURE_KIND_BUDGET_EXHAUSTED"
    assert episode["answer"] == "42"
    assert QUESTION <= Decimal(episode["cost"]["amount"]) <= budget


async def test_a_call_without_an_episode_costs_its_guardrails_too(
    podium: CommandLine, guard: GuardrailServer
) -> None:
    async def called(budget: str) -> "subprocess.CompletedProcess[str]":
        options = ("--policy", "paid-guardrail", "--budget", budget, "--json")
        tried = ("tools", "try", "calculator", '{"expression": "6 * 7"}', *options)
        return await asyncio.to_thread(podium, *tried)

    made = json.loads((await called("1")).stdout)
    assert Decimal(made["cost"]["amount"]) >= 2 * QUESTION
    assert [each["stage"] for each in guard.asked] == ["input", "output"]
    rejected = await called("0.0008")
    assert "budget exhausted" in rejected.stderr
    assert len(guard.asked) == 2
