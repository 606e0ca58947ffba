"""Conversations through the platform and tau2's own evaluator give equal verdicts.

A scripted orchestrator plays the golden actions of every task through gateway, episodes, registry,
adapters and ledger; of every fourth task it also plays an idle agent, which does nothing. tau2
plays and judges the same by itself; where its evaluator raises, the trial has no score here.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.podium_evaluation.leaderboards.golden_tau2 import (
    DONE,
    GOLDEN,
    IDLE,
    PLEASE,
    judged,
    steps,
)
from local_platforms import local_platform
from openai_server import OpenAiServer
from podium_evaluation.environments.programs import FOLDER_VARIABLE

pytestmark = [pytest.mark.leaderboards, pytest.mark.timeout(3600)]
PROGRAM = Path(__file__).with_name("with_tau2.py")
MODEL, DOMAINS = "scripted-model", ("mock", "airline", "retail", "telecom")
# Their tasks are those of 1.0.x.
LATER = {name: f"tau2-{name}-mcp-eval" for name in ("mock", "airline", "retail")}
JUDGED_LATER = 40
PROBE = "What is two plus two?"
TURNS_MAX = 100
KEY = re.compile(r"My case is (\S+)\.")
# A call of the episode, in the prompt of its next turn.
CALL_MADE = re.compile(r"^- \w+ \{.*\} -> ", re.MULTILINE)
PRICES = """sku,dimension,unit_price,per,tenant
orchestrator/scripted-model,input_fresh,0.000002,1000000,default
orchestrator/scripted-model,output_text,0.000002,1000000,default
people/scripted,input_fresh,0.000002,1000000,default
people/scripted,output_text,0.000002,1000000,default
"""

Values = dict[str, Any]


class Script:
    """Plays the agent, its users and the judge."""

    def __init__(self) -> None:
        self.steps: dict[str, list[Values]] = {}

    def act(self, body: Mapping[str, Any]) -> Values:
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        found = KEY.search(prompt)
        assert found is not None, prompt
        planned = self.steps[found[1]]
        made = len(CALL_MADE.findall(prompt.partition("Earlier attempts:")[2]))
        return {"thought": "", **planned[min(made, len(planned) - 1)]}

    def speak(self, body: Mapping[str, Any]) -> str:
        system, last = (str(body["messages"][place]["content"]) for place in (0, -1))
        if PROBE in last:
            return "correct"
        if "expectedOutcomes:" in last:
            return judged(last)
        if DONE in last:
            return "###STOP###"
        if PLEASE in last:
            return last.partition(PLEASE)[2]
        if last.startswith("Result: "):
            return "I did that."
        found = KEY.search(system)
        assert found is not None, system
        return found[0]


@dataclass(frozen=True)
class Bench:
    folder: Path
    python: Path
    script: Script
    environment: Mapping[str, str]

    async def podium(self, *arguments: str) -> Values:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "podium_cli", *arguments, "--json"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(self.environment),
        )
        output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        found: Values = json.loads(output)
        return found

    def tasks(self, domain: str) -> list[Values]:
        options = {"domain": domain, "split": "", "file": ""}
        done = subprocess.run(
            (str(self.python.parents[1] / "run"),),
            input=json.dumps({"id": 1, "do": "suite", "options": options}),
            capture_output=True,
            text=True,
            check=True,
        )
        return [each["task"] for each in json.loads(done.stdout)["result"]["tasks"]]

    async def verdicts(
        self, name: str, domain: str, tasks: list[Values]
    ) -> Mapping[str, float | None]:
        """Scores by the ids of cases, from trials through the platform."""
        cases = []
        for place, (task, way) in enumerate(ways(tasks)):
            key = f"{name}-{place}"
            self.script.steps[key] = steps(task, way)
            scenario = {**task["user_scenario"], "persona": f"My case is {key}."}
            cases.append({**task, "id": f"{task['id']}/{way}", "user_scenario": scenario})
        (self.folder / f"{name}.json").write_text(json.dumps(cases))
        suite = {
            "from": "tau2",
            "domain": domain,
            "file": f"{name}.json",
            "user": "person",
            "judge": "person",
            "count": len(cases),
        }
        arms = [{"name": "golden"}]
        limits = {"turn_limit": 60, "time_limit": "30m", "budget_usd": "100", "at_once": 12}
        run_file = self.folder / f"{name}.yaml"
        run_file.write_text(yaml.safe_dump({"suite": suite, "arms": arms, **limits}))
        run = (await self.podium("eval", "run", str(run_file)))["evaluation"]["id"]
        lines = self.folder / f"{name}.jsonl"
        await self.podium("eval", "export", run, "-o", str(lines))
        _, *trials = map(json.loads, lines.read_text().splitlines())
        return {each["item_id"].split("/", 2)[2]: each["score"] for each in trials}

    def own_verdicts(self, domain: str, tasks: list[Values]) -> Mapping[str, float | None]:
        asked = ways(tasks)
        lines = [{"domain": domain, "task": task, "way": way} for task, way in asked]
        done = subprocess.run(
            (str(self.python), str(PROGRAM)),
            input="".join(f"{json.dumps(line)}\n" for line in lines),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )
        scores = map(json.loads, done.stdout.splitlines())
        keys = (f"{task['id']}/{way}" for task, way in asked)
        return dict(zip(keys, scores, strict=True))


def ways(tasks: Sequence[Values]) -> list[tuple[Values, str]]:
    """Right trials before wrong ones."""
    return [*((task, GOLDEN) for task in tasks), *((task, IDLE) for task in tasks[::4])]


@pytest.fixture(scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    folder = tmp_path_factory.mktemp("tau2")
    script = Script()
    models = (
        OpenAiServer(script=[script.act] * TURNS_MAX, models=[MODEL]),
        OpenAiServer(script=[script.speak], models=["person"]),
    )
    with models[0] as agent, models[1] as person:
        async with local_platform(folder, agent.base_url, MODEL):
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "PODIUM_STATE_DIR": str(folder / "state"),
                FOLDER_VARIABLE: str(folder / "environments"),
            }
            installed = Path(environment[FOLDER_VARIABLE]) / "tau2" / "bin" / "python"
            bench = Bench(folder, installed, script, environment)
            await bench.podium("eval", "setup", "tau2")
            (folder / "prices.csv").write_text(PRICES)
            (folder / "person.yaml").write_text(yaml.safe_dump(person_tool(person)))
            await bench.podium("prices", "import", str(folder / "prices.csv"))
            await bench.podium("tools", "apply", "--shared", "-f", str(folder / "person.yaml"))
            yield bench


def person_tool(server: OpenAiServer) -> Values:
    model = {
        "alias": "person",
        "model": "person",
        "baseUrl": server.base_url,
        "api": "LLM_API_OPENAI_CHAT",
        "sku": "people/scripted",
    }
    llm = {"models": [model], "maxOutputTokens": 4096, "role": "LLM_ROLE_GENERALIST"}
    return {
        "name": "person",
        "kind": "TOOL_KIND_LLM",
        "description": "Plays users, and judges.",
        "parametersJsonSchema": '{"type": "object", "additionalProperties": false}',
        "connection": {"llm": llm},
        "sideEffect": "SIDE_EFFECT_PURE",
    }


@pytest.mark.parametrize("domain", DOMAINS)
async def test_every_task_is_judged_as_tau2_judges_it(bench: Bench, domain: str) -> None:
    tasks = bench.tasks(domain)
    found = await bench.verdicts(domain, domain, tasks)
    assert found == bench.own_verdicts(domain, tasks)
    # Neither always says the same.
    assert {0.0, 1.0} <= set(found.values())


@pytest.mark.parametrize("domain", LATER)
async def test_every_task_of_1_0_is_judged_as_tau2_judges_it(bench: Bench, domain: str) -> None:
    tasks = later_tasks(bench.folder / "later", domain)
    found = await bench.verdicts(f"{domain}-1", domain, tasks)
    assert found == bench.own_verdicts(domain, tasks)
    criteria = [task["evaluation_criteria"] for task in tasks]
    words = [each for each in criteria if "NL_ASSERTION" in each.get("reward_basis", ())]
    judged = sum(bool(each.get("nl_assertions")) for each in words)
    assert judged == (JUDGED_LATER if domain == "retail" else 0)
    assert {0.0, 1.0} <= set(found.values())


def later_tasks(folder: Path, domain: str) -> list[Values]:
    uv = str(Path(sys.executable).parent / "uv")
    install = ("pip", "install", "--quiet", "--no-deps", "--target", str(folder / domain))
    subprocess.run((uv, *install, LATER[domain]), check=True)
    [path] = (folder / domain).rglob("tasks.json")
    found: list[Values] = json.loads(path.read_text())
    return found
