"""Verifiers that call tools, through the whole platform: sandbox, model, a domain's tables."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from integration.podium_cli.conftest import CommandLine
from openai_server import OpenAiServer
from podium_training.synthesis.draft import Draft
from podium_training.synthesis.pipeline import task_of
from podium_training.tasks.task import Split, Task
from unit.house.source_files import ROOT
from unit.podium_training.synthesis.library_domain import make_domain, make_draft

DOMAIN = make_domain()
ROLLOUT_TIMEOUT_S = 150
# So that a budget covers what the model asks for and not the sandbox, at any earlier cost.
CHEAP_MODEL = """sku,dimension,unit_price,per,tenant
orchestrator/scripted-model,input_fresh,0.000001,1000000,default
orchestrator/scripted-model,output_text,0.000001,1000000,default
"""
POLICY = "{name: judged, preset: balanced, unknown_price: UNKNOWN_PRICE_RULE_ADMIT}"


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"thought": "", "tool": tool, "arguments": arguments}


def rolled(podium: CommandLine, folder: Path, task: Task, *options: str) -> list[dict[str, Any]]:
    """The episodes of one group of the task."""
    path = folder / "task.jsonl"
    path.write_text(task.to_json())
    arguments = ("--task-file", str(path), "--at-once", "1", "--tools", "4", *options)
    # Programs start for every episode, and again for its verifier.
    process = podium.start("train", "rollout", *arguments, "--json")
    stdout, stderr = process.communicate(timeout=ROLLOUT_TIMEOUT_S)
    assert process.returncode == 0, stderr
    [group] = json.loads(stdout)["groups"]
    return list(group["episodes"])


@pytest.fixture
def policy(podium: CommandLine, tmp_path: Path) -> str:
    """One under which a model without a price may be asked."""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    assert podium("policies", "apply", "-f", str(path)).returncode == 0
    return "judged"


def python_task(code: str) -> Task:
    return Task("primes", "code", Split.TRAIN, "Name a prime number.", "python", {"code": code})


def test_python_decides_in_the_sandbox(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    model.push({"answer": "97"}, {"answer": "91"}, {"answer": "__import__('os')._exit(0)"})
    code = "import sympy\ndef check(answer):\n    return sympy.isprime(int(answer)), 'looked'\n"
    episodes = rolled(podium, tmp_path, python_task(code), "--size", "3")
    assert [episode["score"] for episode in episodes] == [1.0, 0.0, None]
    assert episodes[0]["reason"] == "looked"
    # A check that crashes says nothing about the answer, least of all that it is wrong.
    assert "code_interpreter failed" in episodes[2]["reason"]


def test_a_model_judges_by_the_reference(
    podium: CommandLine, model: OpenAiServer, policy: str, tmp_path: Path
) -> None:
    parameters = {"judges": "ask_llm", "reference": "Paris", "allow_own_family": True}
    task = Task("capital", "qa", Split.TRAIN, "Capital of France?", "llm", parameters)
    model.push(
        *({"answer": "It is Paris."}, "Both name Paris.\ncorrect"),
        *({"answer": "Lyon"}, "Another city.\nincorrect"),
        *({"answer": "Paris?"}, "I am not sure what to say"),
    )
    episodes = rolled(podium, tmp_path, task, "--size", "3", "--policy", policy)
    assert [episode["score"] for episode in episodes] == [1.0, 0.0, None]
    assert "no verdict" in episodes[2]["reason"]
    asked = json.dumps(model.requests[-1]["messages"])
    assert "Capital of France?" in asked and "Paris?" in asked


def test_the_state_of_a_synthesized_domain_is_compared_with_that_of_the_golden_calls(
    podium: CommandLine, model: OpenAiServer, policy: str, tmp_path: Path
) -> None:
    domain = tmp_path / "domain.json"
    domain.write_text(DOMAIN.model_dump_json())
    # As root the server runs as a user without an account.
    tmp_path.chmod(0o755)
    server = {
        "argv": ["python", "-m", "podium_training.synthesis.server", str(domain)],
        "env": {"PYTHONPATH": os.pathsep.join(sys.path)},
        "folders": [str(tmp_path), str(ROOT)],
    }
    (podium.state_dir / "mcp-servers" / "library.yaml").write_text(json.dumps(server))
    imported = podium(
        *("tools", "import-mcp", "--shared", "--prefix", f"{DOMAIN.name}_"),
        *("--sku", "tool/tau2_mock", "library"),
    )
    assert imported.returncode == 0, imported.stderr
    task = task_of(DOMAIN, Draft.model_validate(make_draft()))
    find, give_back = (call.tool for call in task.solution or ())
    solved = [call(find, who="Ada Reed"), call(give_back, loan="l0")]
    model.push(
        *(*solved, {"answer": "Emma is back after 10 days."}),
        # All is done and not all is said; all is said and nothing is done.
        *(*solved, {"answer": "Emma is back."}),
        {"answer": "Emma is back after 10 days."},
    )
    episodes = rolled(podium, tmp_path, task, "--size", "3", "--policy", policy)
    assert [episode["score"] for episode in episodes] == [1.0, 0.0, 0.0]
    assert episodes[1]["reason"] == "missing: 10"
    listed = podium.json("episodes", "list")["episodes"]
    [spec] = [each["spec"] for each in listed if each["id"] == episodes[0]["id"]]
    assert f"{DOMAIN.name}_state" not in spec["tool_names"]


def test_a_verifier_that_the_budget_rejects_leaves_the_answer_unjudged_and_says_so(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    (tmp_path / "cheap.csv").write_text(CHEAP_MODEL)
    assert podium("prices", "import", str(tmp_path / "cheap.csv")).returncode == 0
    limit = ("--amount", "0.000001", "--scope", "named")
    assert podium("budgets", "create", "tiny", *limit).returncode == 0
    path = tmp_path / "policy.yaml"
    # Models that have no price are no part of what has a budget.
    limited = ", budget_ids: [tiny], deny: {kinds: [llm]}}"
    path.write_text(POLICY.replace("judged", "poor").replace("}", limited))
    assert podium("policies", "apply", "-f", str(path)).returncode == 0
    model.push({"answer": "97"})
    task = python_task("def check(answer): return True")
    [episode] = rolled(podium, tmp_path, task, "--size", "1", "--policy", "poor")
    assert (episode["stop_reason"], episode["score"]) == ("answered", None)
    assert "budget tiny" in episode["reason"]
    connection = json.loads((podium.state_dir / "connection.json").read_text())
    recorded = httpx.get(
        f"{connection['gateway_url']}/v1/episodes/{episode['id']}/trajectory",
        headers={"authorization": f"Bearer {connection['api_key']}"},
        trust_env=False,
    )
    trajectory = recorded.json()["trajectory"]
    assert trajectory["unjudged_reason"] == episode["reason"]
    [rejected] = trajectory["verifier_calls"]
    assert rejected["observation"]["failure"]["kind"] == "FAILURE_KIND_BUDGET_EXHAUSTED"
    assert not trajectory["outcomes"]
