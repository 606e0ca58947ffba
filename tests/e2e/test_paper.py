"""An episode of ToolOrchestra: its tools and prompts, and experts of three families."""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest_asyncio

from builders.episode_costs import misreported
from e2e.episodes_over_http import entries, finished, start, trajectory
from integration.tool_adapters.providers.provider_table import PROVIDERS
from integration.tool_adapters.providers.recordings import ANSWER, Provider, Recording
from integration.tool_adapters.providers.test_provider_matrix import answering
from local_platforms import local_platform
from openai_server import OpenAiServer
from podium.registry.v1 import policy_pb2, tool_pb2
from podium_cli.prices.lists import read_price_list
from podium_kit.wire import json_values
from podium_operations.documents import read_messages
from podium_operations.local.state import Connection
from temporary_files import server_folder

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "bundled" / "paper"
MODEL = "nvidia/Nemotron-Orchestrator-8B"
TOOLS = ["search", "enhance_reasoning", "answer"]
KEYS = {"openai": "sk-openai", "together": "sk-together"}
SETTINGS = {
    "tool_adapters": {
        "allowed_hosts": '["127.0.0.1"]',
        **{f"secret_default__{name}": key for name, key in KEYS.items()},
    }
}
TASK = "How many grams do three hundred Larkfield Ardents weigh?"
QUERY = "weight of the Larkfield Ardent"
PROGRAM = "Three hundred of them.\n```python\nprint(300 * 1250)\n```"
SOLUTION = "They weigh 375000 g."


@dataclass(frozen=True)
class Expert:
    """An expert: its server, its text of each episode, and its prices by a million tokens."""

    alias: str
    provider: Provider
    texts: tuple[str, ...]
    prices: tuple[str, str]

    @property
    def replies(self) -> list[Recording]:
        events = json.dumps(self.provider.cases()["stream"].events)
        written = [events.replace(ANSWER, json.dumps(text)[1:-1]) for text in self.texts]
        return [Recording(events=json.loads(each)) for each in written]

    @property
    def cost(self) -> Decimal:
        """The bill for what the server itself reports, by its family's containment."""
        report: dict[str, Any] = self.provider.report
        if self.provider.api == "ANTHROPIC_MESSAGES":
            kinds = ("input", "cache_read_input", "cache_creation_input")
            read = sum(int(report[f"{kind}_tokens"]) for kind in kinds)
            wrote = int(report["output_tokens"])
        else:
            # Gemini counts thoughts in the total alone.
            read = int(report["prompt_tokens"])
            wrote = int(report["total_tokens"]) - read
        price_in, price_out = map(Decimal, self.prices)
        return (read * price_in + wrote * price_out) / 1_000_000


# Of the episode, and of the example's.
QUERIES = (QUERY, "spanning trees of a complete bipartite graph")
PROGRAMS = (PROGRAM, "```python\nprint(4**6 * 7**3 * 10 // 28)\n```")
SOLUTIONS = (SOLUTION, "501760")
SEARCHER = Expert("search-1", PROVIDERS["openai"], QUERIES, ("1.25", "10"))
CODER = Expert("reasoner-2", PROVIDERS["anthropic"], PROGRAMS, ("0.25", "2"))
SOLVER = Expert("answer-3", PROVIDERS["gemini"], SOLUTIONS, ("0.9", "0.9"))
EXPERTS = (SEARCHER, CODER, SOLVER)


def calls(tool: str, alias: str) -> str:
    """A reply in the checkpoint's exact form."""
    call = json.dumps({"name": tool, "arguments": {"model": alias}})
    return f"<think>\nNext is {tool}.\n</think>\n\n<tool_call>\n{call}\n</tool_call>"


@dataclass(frozen=True)
class PaperEpisode:
    """The episode, what it was charged by key, and what its models were asked."""

    ended: dict[str, Any]
    turns: list[dict[str, Any]]
    charged: dict[str, dict[str, Any]]
    orchestrator: OpenAiServer
    asked: Mapping[str, list[tuple[dict[str, Any], Mapping[str, str]]]]
    example: str
    """The output of the program of examples/paper, which ran behind the episode."""


def client_of(connection: Connection, key: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=connection.gateway_url,
        headers={"authorization": f"Bearer {key}"},
        timeout=120,
        trust_env=False,
    )


async def fill(connection: Connection, urls: Mapping[str, str]) -> None:
    """Registers bundled/paper as it is, with the experts' addresses at the recorded servers."""
    prices = [json_values(spec) for spec in read_price_list(PAPER / "prices.csv")]
    [(_, policy)] = read_messages(PAPER / "policy.yaml", policy_pb2.PolicySpec)
    specs = [spec for _, spec in read_messages(PAPER / "tools", tool_pb2.ToolSpec)]
    apis = {expert.alias: f"LLM_API_{expert.provider.api}" for expert in EXPERTS}
    for spec in specs:
        for model in spec.connection.llm.models:
            if model.alias in urls:
                model.base_url = urls[model.alias]
                model.api = tool_pb2.LlmApi.Value(apis[model.alias])
    for key, path, body in (
        (connection.admin_key, "prices", {"specs": prices}),
        (connection.api_key, "policies", {"spec": json_values(policy)}),
        (connection.api_key, "tools/batch", {"specs": [json_values(spec) for spec in specs]}),
    ):
        async with client_of(connection, key) as client:
            reply = await client.post(f"/v1/{path}", json=body)
        assert reply.is_success, reply.text
    assert not [tool for tool in reply.json()["tools"] if tool.get("problem")], reply.text


async def run_example(connection: Connection) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "examples" / "paper" / "hle_question.py"),
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "sdks" / "python"),
            "PODIUM_URL": connection.gateway_url,
            "PODIUM_API_KEY": connection.api_key,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return output.decode()


@pytest_asyncio.fixture(scope="module")
async def episode() -> AsyncIterator[PaperEpisode]:
    script = [calls(tool, each.alias) for tool, each in zip(TOOLS, EXPERTS, strict=True)]
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(server_folder("paper"))
        checkpoint = OpenAiServer(script=script, models=[MODEL], vllm_version="0.32.0")
        orchestrator = stack.enter_context(checkpoint)
        asked: dict[str, list[tuple[dict[str, Any], Mapping[str, str]]]] = {}
        urls = {}
        for expert in EXPERTS:
            seen = asked[expert.alias] = []
            server = answering(*expert.replies, asked=seen)
            urls[expert.alias] = await stack.enter_async_context(server)
        running = local_platform(
            folder, orchestrator.base_url, MODEL, prompt_mode="template", settings=SETTINGS
        )
        _, connection = await stack.enter_async_context(running)
        await fill(connection, urls)
        async with client_of(connection, connection.api_key) as client:
            episode_id = await start(client, TASK, tool_names=TOOLS, policy="paper")
            ended = await finished(client, episode_id)
            turns = (await trajectory(client, episode_id))["turns"]
            charged = {entry["key"]: entry for entry in await entries(client, episode_id)}
        example = await run_example(connection)
        yield PaperEpisode(ended, turns, charged, orchestrator, asked, example)
        assert not await misreported(folder / "state")


async def test_experts_of_three_families_and_the_papers_tools_give_the_right_answer(
    episode: PaperEpisode,
) -> None:
    ended = episode.ended
    assert (ended["stop_reason"], ended["answer"]) == ("STOP_REASON_ANSWERED", SOLUTION)
    searched, reasoned, answered = (turn["tool_invocations"][0] for turn in episode.turns)
    ran = searched["executor"]["observation"]
    assert json.loads(ran["call"]["arguments_json"]) == {"query": QUERY}
    assert "Ardent" in ran["content"]
    assert reasoned["executor"]["observation"]["content"].strip() == "375000"
    assert "executor" not in answered


async def test_the_ledger_equals_the_servers_own_counts_to_the_last_digit(
    episode: PaperEpisode,
) -> None:
    costs: dict[str, Decimal] = {}
    pairs = zip(EXPERTS, episode.orchestrator.completions, strict=False)
    for turn, (expert, completion) in enumerate(pairs, start=1):
        used = completion["usage"]
        tokens = used["prompt_tokens"] + used["completion_tokens"]
        costs[f"{turn}/model/0"] = tokens * Decimal("0.0000002")
        costs[f"{turn}/tool/0"] = expert.cost
    costs["1/executor/0"] = Decimal("0.0001")
    costs["2/executor/0"] = seconds_of(episode.turns[1]) * Decimal("0.0000083")
    posted = {
        key.partition("/")[2]: Decimal(entry["amount"]["amount"])
        for key, entry in episode.charged.items()
    }
    assert posted == costs
    assert Decimal(episode.ended["cost"]["amount"]) == sum(costs.values())


def seconds_of(turn: Mapping[str, Any]) -> Decimal:
    [seconds] = [
        Decimal(each["amount"])
        for each in turn["tool_invocations"][0]["executor"]["usage"]["quantities"]
        if each["dimension"] == "USAGE_DIMENSION_SECOND"
    ]
    return seconds


async def test_both_halves_of_a_call_are_reported_as_the_composite_tools(
    episode: PaperEpisode,
) -> None:
    halves = {
        key.partition("/")[2]: entry
        for key, entry in episode.charged.items()
        if key.endswith(("/1/tool/0", "/1/executor/0"))
    }
    subjects = {key: entry["subject"] for key, entry in halves.items()}
    assert {each["tool"] for each in subjects.values()} == {"search"}
    models = {key: subject["model"] for key, subject in subjects.items()}
    assert models == {"1/tool/0": "search-1", "1/executor/0": ""}
    [search] = episode.turns[0]["tool_invocations"]
    amounts = [Decimal(entry["amount"]["amount"]) for entry in halves.values()]
    assert Decimal(search["cost"]["amount"]) == sum(amounts)


async def test_the_checkpoint_is_asked_as_it_was_trained(episode: PaperEpisode) -> None:
    first, _, last = episode.orchestrator.requests[: len(EXPERTS)]
    assert first["messages"][0]["content"] == "You are good at using tools."
    assert [tool["function"]["name"] for tool in first["tools"]] == sorted(TOOLS)
    assert first["tool_choice"] == "none" and "response_format" not in first
    assert first["max_tokens"] == 4096
    problem = last["messages"][1]["content"]
    for heading in (f"Problem: {TASK}", "Documents:\nDocument 1", "Code and its output:\n"):
        assert heading in problem
    assert "code_interpreter gave:\n375000" in problem


async def test_each_expert_gets_the_task_the_findings_and_its_own_key(
    episode: PaperEpisode,
) -> None:
    bodies = {alias: json.dumps(asked[0][0]) for alias, asked in episode.asked.items()}
    assert all(TASK in body for body in bodies.values())
    assert "375000" in bodies["answer-3"] and "375000" not in bodies["reasoner-2"]
    headers = {alias: asked[0][1] for alias, asked in episode.asked.items()}
    assert headers["search-1"]["authorization"] == f"Bearer {KEYS['openai']}"
    assert headers["reasoner-2"]["x-api-key"] == KEYS["openai"]
    assert headers["answer-3"]["authorization"] == f"Bearer {KEYS['together']}"


async def test_the_example_solves_its_question_and_prints_trace_and_prices(
    episode: PaperEpisode,
) -> None:
    lines = episode.example.splitlines()
    assert [line.split(" (")[0] for line in lines if line.startswith("turn ")] == [
        f"turn {number}: Next is {tool}." for number, tool in enumerate(TOOLS, start=1)
    ]
    for expert, tool in zip(EXPERTS, TOOLS, strict=True):
        [line] = [line for line in lines if line.startswith(f"  {tool} by {expert.alias}, ")]
        paid = Decimal(line.rpartition(", ")[2].split()[0])
        # The executor's share comes on top.
        assert paid == expert.cost if tool == "answer" else paid > expert.cost
    assert "print(4**6 * 7**3 * 10 // 28)" in episode.example
    assert lines[-3:-1] == ["answer: 501760", "right"]
    assert re.fullmatch(r"episode and trace [0-9a-f-]{36}, 0\.\d+ USD", lines[-1])
