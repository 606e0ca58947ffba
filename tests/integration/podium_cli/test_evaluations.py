"""`podium eval` against a whole platform: checked, played once, resumed, reported, compared."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from builders.report_pages import document_of
from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_fallback_models import as_admin
from openai_server import OpenAiServer, Reply
from podium_operations.local.state import StateFolder
from podium_training.tasks.task import Call, Split, Task

DEADLINE_S = 120
CALCULATOR = {"thought": "", "tool": "calculator", "arguments": {"expression": "6 * 7"}}
ANSWER = json.dumps({"answer": "42"})
# This platform has no price for the scripted model.
POLICIES = {
    name: f"name: {name}\npreset: {name.split('-')[1]}-first\nunknown_price: admit\n"
    for name in ("eval-cost", "eval-speed")
}


# Whatever other tests of this platform priced it at, it has a price.
PRICES = """sku,dimension,unit_price,per,tenant
orchestrator/scripted-model,input_fresh,0.000002,1000000,default
orchestrator/scripted-model,output_text,0.000002,1000000,default
"""


def tasks(path: Path, count: int = 2) -> Path:
    made = [
        Task(
            f"sum-{number}",
            "sums",
            Split.HELD_OUT,
            f"What is 6 times 7, and not {number}?",
            "numeric",
            {"expected": "42"},
            (Call("calculator", {"expression": "6 * 7"}),),
        )
        for number in range(count)
    ]
    path.write_text("".join(f"{task.to_json()}\n" for task in made))
    return path


def run_file(folder: Path, **changes: Any) -> Path:
    """A run of two tasks by two arms, one after the other, with changes by the path of a field."""
    tasks(folder / "tasks.jsonl")
    values: dict[str, Any] = {
        "suite": {"from": "tasks", "file": "tasks.jsonl"},
        "arms": [
            {"name": "cheap", "policy": "eval-cost", "tools": ["calculator"]},
            {"name": "quick", "policy": "eval-speed", "tools": ["calculator"]},
        ],
        "budget_usd": "1",
        "at_once": 1,
    }
    for path, value in changes.items():
        *above, name = path.split("__")
        place: Any = values
        for each in above:
            place = place[int(each)] if each.isdecimal() else place[each]
        place[name] = value
    path_of_file = folder / f"run-{len(list(folder.iterdir()))}.yaml"
    path_of_file.write_text(yaml.safe_dump(values))
    return path_of_file


@pytest.fixture
def policies(podium: CommandLine, tmp_path: Path) -> None:
    for name, text in POLICIES.items():
        (tmp_path / name).write_text(text)
        podium.json("policies", "apply", "-f", str(tmp_path / name))
    (tmp_path / "prices.csv").write_text(PRICES)
    assert podium("prices", "import", str(tmp_path / "prices.csv")).returncode == 0


def stored_report(podium: CommandLine, run: str) -> str:
    connection = StateFolder(podium.state_dir).read_connection()
    headers = {"authorization": f"Bearer {connection.api_key}"}
    url = f"{connection.gateway_url}/v1/evaluations/{run}/report"
    reply = httpx.get(url, headers=headers, trust_env=False)
    assert reply.is_success, reply.text
    return str(reply.json()["report_json"])


def progress(found: Any) -> dict[str, dict[str, Any]]:
    return {each["arm"]: each for each in found["progress"]}


@pytest.mark.usefixtures("policies")
def test_a_run_is_played_once_reported_exported_and_compared(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    page, lines = tmp_path / "page.html", tmp_path / "trials.jsonl"
    model.push(CALCULATOR, {"answer": "It is 42"}, {"answer": "41"})
    model.push(CALCULATOR, {"answer": "42"}, CALCULATOR, {"answer": "42"})
    found = podium.json("eval", "run", str(run_file(tmp_path)), "--report", str(page))
    run = found["evaluation"]["id"]
    assert found["evaluation"]["state"] == "EVALUATION_STATE_ENDED"
    arms = progress(found)
    assert (arms["cheap"]["judged_count"], arms["cheap"]["score_sum"]) == (2, 2.0)
    assert (arms["quick"]["judged_count"], arms["quick"]["score_sum"]) == (2, 1.0)
    asked = len(model.requests)
    assert model.requests[-1]["temperature"] == 0

    again = podium.json("eval", "resume", run)
    assert progress(again) == arms
    assert len(model.requests) == asked, "a trial was played again"

    shown = document_of(page)
    [failed] = shown["worst"]
    assert (failed["item_id"], failed["kind"], failed["answer"]) == ("sum-0", "wrong tool", "41")
    assert "no limit" in shown["comparability"].values()
    stored = json.loads(stored_report(podium, run))
    assert "answer" not in stored["worst"][0]
    assert {**shown, "worst": []} == {**stored, "worst": []}
    podium.json("eval", "export", run, "-o", str(lines))
    head, *trials = map(json.loads, lines.read_text().splitlines())
    assert (head["run"], head["arms"]) == (run, ["cheap", "quick"])
    assert [(each["arm"], each["score"]) for each in trials] == [
        ("cheap", 1.0),
        ("quick", 0.0),
        ("cheap", 1.0),
        ("quick", 1.0),
    ]
    assert Decimal(trials[0]["cost"]) > 0
    podium.json("eval", "export", run, "--format", "inspect", "-o", str(tmp_path / "logs"))
    logs = [json.loads(path.read_text()) for path in sorted((tmp_path / "logs").iterdir())]
    assert [log["results"]["scores"][0]["metrics"]["accuracy"]["value"] for log in logs] == [1, 0.5]
    assert logs[0]["samples"][0]["target"] == "42"
    episode = podium.json("episodes", "show", trials[0]["episode_id"])
    assert episode["spec"]["labels"]["evaluation"] == run
    budget = podium.json("budgets", "show", f"evaluation-{run}")
    assert budget["budget"]["scope_id"] == f"evaluation-{run}"
    assert run in [each["id"] for each in podium.json("eval", "list")["evaluations"]]

    [pair] = podium.json("eval", "compare", f"{run}/cheap", f"{run}/quick")["pairs"]
    assert (pair["items"], pair["accuracy"]["mean"]) == (2, -0.5)
    assert pair["cost_ratio"]["value"] > 0
    gated = podium("eval", "compare", f"{run}/cheap", f"{run}/quick", "--gate", "accuracy >= -1pp")
    assert gated.returncode == 1 and "it may be -87.9pp" in gated.stdout


ASKED = {"small": "It is 42", "large": "42"}


@pytest.fixture
def experts(podium: CommandLine, tmp_path: Path) -> Iterator[dict[str, OpenAiServer]]:
    """The models of the tool ask_experts: the large one costs ten times the small one's price."""
    lines = ["sku,dimension,unit_price,per,tenant"]
    for alias, price in (("small", 1), ("large", 10)):
        for dimension in ("input_fresh", "output_text"):
            lines.append(f"{alias}-expert,{dimension},{price},1000000,default")
    (tmp_path / "experts.csv").write_text("\n".join(lines))
    assert podium("prices", "import", str(tmp_path / "experts.csv")).returncode == 0
    with ExitStack() as stack:
        http = stack.enter_context(as_admin(podium))
        servers = {each: stack.enter_context(OpenAiServer(models=[each])) for each in ASKED}
        models = [
            {
                "alias": alias,
                "model": alias,
                "base_url": server.base_url,
                "api": "LLM_API_OPENAI_CHAT",
                "sku": f"{alias}-expert",
            }
            for alias, server in servers.items()
        ]
        spec = {
            "name": "ask_experts",
            "kind": "TOOL_KIND_LLM",
            "description": "Asks an expert.",
            "side_effect": "SIDE_EFFECT_PURE",
            "parameters_json_schema": '{"type": "object"}',
            "connection": {"llm": {"role": "LLM_ROLE_GENERALIST", "models": models}},
        }
        registered = http.post("/v1/tools", json={"spec": spec, "shared": True})
        assert registered.is_success, registered.text
        yield servers
        assert http.delete("/v1/tools/ask_experts").is_success


@pytest.mark.usefixtures("policies")
def test_arms_that_rules_decide_are_played_beside_models_and_cost_no_tokens(
    podium: CommandLine,
    model: OpenAiServer,
    experts: dict[str, OpenAiServer],
    tmp_path: Path,
) -> None:
    named = {"cheapest": "rule/cheapest", "large": "rule/always/ask_experts/large"}
    common = {"policy": "eval-cost", "tools": ["ask_experts"]}
    arms: list[dict[str, Any]] = [{"name": each, "model": named[each], **common} for each in named]
    arms.append({"name": "without tools", "turn_limit": 1, **common})
    model.push({"answer": "41"}, {"answer": "42"})
    for alias, server in experts.items():
        server.push(ASKED[alias], ASKED[alias])
    path = run_file(tmp_path, arms=arms)
    run = podium.json("eval", "run", str(path), "--report", str(tmp_path / "page.html"))
    found = progress(run)
    assert {arm: each["score_sum"] for arm, each in found.items()} == {
        "cheapest": 2.0,
        "large": 2.0,
        "without tools": 1.0,
    }
    assert [len(server.requests) for server in experts.values()] == [2, 2]
    grammar = json.dumps(model.requests[-1]["response_format"])
    assert "answer" in grammar and "ask_experts" not in grammar, "it may call tools"
    shown = document_of(tmp_path / "page.html")
    assert shown["choices"][0]["calls"] == {"ask_experts/small": 1.0}
    assert len(shown["curves"][0]["points"]) == 7
    lines = tmp_path / "trials.jsonl"
    podium.json("eval", "export", run["evaluation"]["id"], "-o", str(lines))
    trials = [json.loads(line) for line in lines.read_text().splitlines()[1:]]
    by_arm = {each["arm"]: each for each in trials}
    assert by_arm["cheapest"]["calls"] == {"ask_experts": 1, "ask_experts/small": 1}
    own = {arm: Decimal(each["orchestrator_cost"]) for arm, each in by_arm.items()}
    assert own["cheapest"] == own["large"] == 0 < own["without tools"]
    costs = {arm: Decimal(each["cost"]) for arm, each in by_arm.items()}
    assert 0 < costs["cheapest"] < costs["large"]
    assert costs["without tools"] == own["without tools"]


@pytest.mark.usefixtures("policies")
def test_a_rule_that_is_none_is_an_error_before_anything_is_spent(
    podium: CommandLine, tmp_path: Path
) -> None:
    arms = [{"name": "best", "model": "rule/best"}]
    ended = podium("eval", "run", str(run_file(tmp_path, arms=arms)))
    assert ended.returncode == 1 and "rule/worth, rule/cheapest" in ended.stderr


@pytest.mark.usefixtures("policies")
def test_runs_whose_keys_differ_are_not_compared(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    runs = []
    for changes in NO_CHANGE, {"turn_limit": 3}:
        one: dict[str, Any] = {
            "suite__count": 1,
            "arms": [{"name": "cheap", "policy": "eval-cost"}],
            **changes,
        }
        model.push({"answer": "42"})
        found = podium.json("eval", "run", str(run_file(tmp_path, **one)))
        runs.append(found["evaluation"]["id"])
    ended = podium("eval", "compare", *runs)
    assert ended.returncode == 2
    assert "turn_limit is 6 in one and 3 in the other" in ended.stderr
    assert "items" not in ended.stderr


NO_CHANGE: dict[str, Any] = {}
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"budget_usd": 0}, "budget_usd"),
    ({"trial_usd": "0.30"}, "set budget_usd to 1.20"),
    ({"suite__file": "nothing.jsonl"}, "nothing.jsonl"),
    ({"suite__digest": "0" * 64}, "has not the digest 000000000000"),
    ({"arms__1__name": "cheap"}, "two arms are called cheap"),
    ({"arms__0__tools": ["abacus"]}, "arm cheap: there is no tool abacus"),
    ({"arms__0__policy": "nosuch"}, "nosuch"),
    ({"colour": "red"}, "colour"),
    ({"suite": {"from": "families", "families": ["nosuch"]}}, "there is no family 'nosuch'"),
    ({"suite": {"from": "questions"}}, "needs a `file`"),
]


@pytest.mark.usefixtures("policies")
def test_a_mistake_is_an_error_before_anything_is_spent(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    asked, before = len(model.requests), podium.json("eval", "list")["evaluations"]
    for changes, words in MISTAKES:
        ended = podium("eval", "run", str(run_file(tmp_path, **changes)))
        assert ended.returncode in (1, 2), changes
        assert words in ended.stderr and "Traceback" not in ended.stderr, (changes, ended.stderr)
    judged = {"question": "Who are they?", "answer": "Four words and more"}
    (tmp_path / "questions.jsonl").write_text(json.dumps(judged))
    suite = {"from": "questions", "file": "questions.jsonl", "judge": "calculator"}
    ended = podium("eval", "run", str(run_file(tmp_path, suite=suite)))
    assert "the judge calculator is no tool of kind llm" in ended.stderr
    assert len(model.requests) == asked
    assert podium.json("eval", "list")["evaluations"] == before


@pytest.mark.usefixtures("policies")
def test_a_killed_run_is_resumed_and_plays_each_trial_once(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    model.push(*(Reply(ANSWER, delay_s=0.5) for _ in range(4)))
    command = podium.start("eval", "run", str(run_file(tmp_path)))
    try:
        run = until(lambda: newest_running(podium))
        until(lambda: judged_count(podium, run) >= 1)
    finally:
        command.kill()
        command.communicate()
    found = podium.json("eval", "resume", run, "--at-once", "1")
    assert sum(arm["judged_count"] for arm in found["progress"]) == 4
    label = f"evaluation={run}"
    assert len(podium.json("episodes", "list", "--label", label)["episodes"]) == 4


@pytest.mark.usefixtures("policies")
def test_a_stopped_run_leaves_what_it_did_not_start_unrun_and_is_resumed(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    model.push(Reply(ANSWER, delay_s=10.0))
    command = podium.start("eval", "run", str(run_file(tmp_path)), "--json")
    run = until(lambda: newest_running(podium))
    until(lambda: any(arm["running_count"] for arm in show(podium, run)["progress"]))
    podium.json("eval", "pause", run)
    until(lambda: judged_count(podium, run) >= 1)
    podium.json("eval", "stop", run)
    said, _ = command.communicate(timeout=DEADLINE_S)
    arms = progress(json.loads(said))
    assert (arms["cheap"]["judged_count"], arms["cheap"]["not_run_count"]) == (1, 1)
    assert arms["quick"]["not_run_count"] == 2
    model.push(*({"answer": "42"} for _ in range(3)))
    found = podium.json("eval", "resume", run)
    assert [arm["judged_count"] for arm in found["progress"]] == [2, 2]


def test_the_suites_that_come_with_podium_are_listed_and_readable(podium: CommandLine) -> None:
    listed = podium.json("eval", "suites")["suites"]
    assert "smoke" in [each["name"] for each in listed]


def newest_running(podium: CommandLine) -> str:
    listed = podium.json("eval", "list")["evaluations"]
    running = [each["id"] for each in listed if each["state"] == "EVALUATION_STATE_RUNNING"]
    return running[0] if running else ""


def show(podium: CommandLine, run: str) -> Any:
    return podium.json("eval", "show", run)


def judged_count(podium: CommandLine, run: str) -> int:
    return sum(arm["judged_count"] for arm in show(podium, run)["progress"])


def until(holds: Any) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired("podium eval", DEADLINE_S)
        time.sleep(0.1)
    return found
