"""Conversations with a simulated user: one episode each, rebuilt after a kill, judged once."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.test_evaluations import judged_count, newest_running, until
from openai_server import OpenAiServer, Reply

PRICES = """sku,dimension,unit_price,per,tenant
orchestrator/scripted-model,input_fresh,0.000002,1000000,default
orchestrator/scripted-model,output_text,0.000002,1000000,default
customers/scripted,input_fresh,0.01,1000000,default
customers/scripted,output_text,0.01,1000000,default
"""
POLICY = "name: eval-shop\npreset: cost-first\nunknown_price: admit\n"
WISH, STOP = "A lamp, please", "###STOP###"


def sell(item: str = "lamp") -> dict[str, Any]:
    return {"thought": "", "tool": "sell", "arguments": {"item": item}}


def tell(text: str = "There you are") -> dict[str, Any]:
    return {"thought": "", "tool": "tell_user", "arguments": {"text": text}}


@dataclass(frozen=True)
class Shopping:
    podium: CommandLine
    model: OpenAiServer
    user: OpenAiServer
    folder: Path

    def run_file(self, *items: str, **changes: Any) -> str:
        suite = {"from": "environment", "environment": "shop", "user": "customer", "items": items}
        values = {
            "suite": {**suite, **changes.pop("suite", {})},
            "arms": [{"name": "clerk", "policy": "eval-shop"}],
            "budget_usd": "1",
            "at_once": 1,
            **changes,
        }
        path = self.folder / f"run-{len(list(self.folder.iterdir()))}.yaml"
        path.write_text(yaml.safe_dump(json.loads(json.dumps(values))))
        return str(path)

    def play(self, *items: str, **changes: Any) -> tuple[str, dict[str, Any]]:
        """The run and its only arm's progress."""
        found = self.podium.json("eval", "run", self.run_file(*items, **changes))
        [progress] = found["progress"]
        return found["evaluation"]["id"], progress

    def trial(self, run: str) -> dict[str, Any]:
        lines = self.folder / f"{run}.jsonl"
        self.podium.json("eval", "export", run, "-o", str(lines))
        _, trial = map(json.loads, lines.read_text().splitlines())
        found: dict[str, Any] = trial
        return found

    def posted(self, run: str) -> Decimal:
        budget = self.podium.json("budgets", "show", f"evaluation-{run}")
        return Decimal(budget["posted"]["amount"])


@pytest.fixture(scope="module")
def user() -> Iterator[OpenAiServer]:
    with OpenAiServer(models=["scripted", "claude-scripted", "gemini-scripted"]) as server:
        yield server


@pytest.fixture
def shopping(
    podium: CommandLine, model: OpenAiServer, user: OpenAiServer, tmp_path: Path
) -> Iterator[Shopping]:
    program = tmp_path / "environments" / "shop" / "run"
    program.parent.mkdir(parents=True)
    paths = os.pathsep.join(sys.path)
    command = f"#!/bin/sh\nPYTHONPATH={paths} exec {sys.executable} -m conversations.shop\n"
    program.write_text(command)
    program.chmod(0o755)
    named = {**podium.environment, "PODIUM_ENVIRONMENTS": str(program.parents[1])}
    shopping = Shopping(replace(podium, environment=named), model, user, tmp_path)
    (tmp_path / "prices.csv").write_text(PRICES)
    (tmp_path / "policy.yaml").write_text(POLICY)
    models = {"customer": "scripted", "judge": "claude-scripted", "other_judge": "gemini-scripted"}
    assert podium("prices", "import", str(tmp_path / "prices.csv")).returncode == 0
    for name, asked in models.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**customer(user, asked), "name": name}))
        podium.json("tools", "apply", "-f", str(path))
    podium.json("policies", "apply", "-f", str(tmp_path / "policy.yaml"))
    yield shopping
    user.take_back()
    for name in models:
        assert podium("tools", "delete", name).returncode == 0


def customer(user: OpenAiServer, asked: str = "scripted") -> dict[str, Any]:
    model = {
        "alias": "scripted",
        "model": asked,
        "baseUrl": user.base_url,
        "api": "LLM_API_OPENAI_CHAT",
        "sku": "customers/scripted",
    }
    return {
        "name": "customer",
        "kind": "TOOL_KIND_LLM",
        "description": "Plays customers.",
        "parametersJsonSchema": '{"type": "object", "additionalProperties": false}',
        "connection": {
            "llm": {"models": [model], "maxOutputTokens": 64, "role": "LLM_ROLE_GENERALIST"}
        },
        "sideEffect": "SIDE_EFFECT_PURE",
    }


def test_a_conversation_is_one_episode_that_its_user_ends(shopping: Shopping) -> None:
    shopping.user.push(WISH, "Yes, that one", STOP)
    shopping.model.push(tell("A lamp?"), sell("table"), sell(), tell())
    run, progress = shopping.play("lamp")
    assert (progress["judged_count"], progress["score_sum"]) == (1, 1.0)
    trial = shopping.trial(run)
    assert trial["explanation"] == "sold ['lamp'], answered There you are"
    assert (trial["stop_reason"], trial["turns"]) == ("answered", 4)
    episode = shopping.podium.json("episodes", "show", trial["episode_id"])
    assert (episode["spec"]["task"], episode["answer"]) == (WISH, "There you are")
    # The agent's money and the user's are apart, and both are the run's.
    assert Decimal(trial["simulator_cost"]) > 0 and Decimal(trial["cost"]) > 0
    assert shopping.posted(run) == Decimal(trial["simulator_cost"]) + Decimal(trial["cost"])
    page = shopping.folder / "page.html"
    shopping.podium.json("eval", "report", run, "-o", str(page))
    assert "podium-conversation" in page.read_text()


def test_a_final_answer_ends_a_conversation_and_models_may_judge_it(shopping: Shopping) -> None:
    # Each judge is tried on a plain case first.
    shopping.user.push("correct", "correct", "A chair, please", "yes, it is", "yes, it was")
    shopping.model.push({"answer": "We have none, I am sorry"})
    run, progress = shopping.play("chair", suite={"judge": ["judge", "other_judge"]})
    assert (progress["judged_count"], progress["score_sum"]) == (1, 1.0)
    trial = shopping.trial(run)
    first, second = trial["votes"]
    assert (first["judge"], first["score"], first["explanation"]) == ("judge", 1.0, "yes, it is")
    assert (second["score"], second["explanation"]) == (1.0, "yes, it was")
    paid = Decimal(first["cost"]) + Decimal(second["cost"])
    assert Decimal(trial["judge_cost"]) == paid > 0
    assert trial["explanation"] == "2 of 2 judges agree: judge correct, other_judge correct"
    assert "polite? We have none" in shopping.user.requests[-1]["messages"][-1]["content"]


def test_a_tie_of_judges_leaves_a_conversation_unjudged(shopping: Shopping) -> None:
    shopping.user.push("correct", "correct", "A chair, please", "yes", "no, it is not")
    shopping.model.push({"answer": "We have none"})
    run, progress = shopping.play("chair", suite={"judge": ["judge", "other_judge"]})
    assert (progress["judged_count"], progress["unjudged_count"]) == (0, 1)
    assert "no majority: judge correct, other_judge incorrect" in shopping.trial(run)["explanation"]


def test_a_conversations_judge_is_of_another_family_than_its_agent(shopping: Shopping) -> None:
    shopping.user.push("correct", "A chair, please")
    shopping.model.push({"answer": "We have none, I am sorry"})
    run, progress = shopping.play("chair", suite={"judge": "customer"})
    assert (progress["judged_count"], progress["unjudged_count"]) == (0, 1)
    reason = shopping.trial(run)["explanation"]
    assert "the judge customer is scripted and would judge scripted-model" in reason
    named = [{"name": "clerk", "policy": "eval-shop", "model": "scripted-model"}]
    path = shopping.run_file("chair", suite={"judge": "customer"}, arms=named)
    ended = shopping.podium("eval", "run", path)
    assert ended.returncode == 2 and "of its own family scripted" in " ".join(ended.stderr.split())
    shopping.user.push("correct", "A chair, please", "yes")
    shopping.model.push({"answer": "We have none, I am sorry"})
    allowed = {"suite": {"judge": "customer"}, "allow_own_family": True}
    _, progress = shopping.play("chair", **allowed)
    assert (progress["judged_count"], progress["score_sum"]) == (1, 1.0)


def test_a_conversations_judge_is_tried_before_the_run(shopping: Shopping) -> None:
    shopping.user.push("Hello")
    ended = shopping.podium("eval", "run", shopping.run_file("chair", suite={"judge": "judge"}))
    assert ended.returncode == 1 and "does not judge a plain case" in ended.stderr


def test_a_conversation_that_reaches_its_own_limit_is_wrong(shopping: Shopping) -> None:
    shopping.user.push(WISH)
    shopping.model.push(sell())
    run, progress = shopping.play("lamp", turn_limit=1)
    assert (progress["judged_count"], progress["score_sum"]) == (1, 0.0)
    assert shopping.trial(run)["stop_reason"] == "turn_limit"


def killed_after_a_sale(shopping: Shopping, item: str) -> str:
    """A run whose command was killed while the agent thinks about what follows its first call."""
    asked = len(shopping.model.requests)
    shopping.user.push(f"A {item}, please", STOP)
    shopping.model.push(sell(item), Reply(json.dumps(tell()), delay_s=2.0))
    command = shopping.podium.start("eval", "run", shopping.run_file(item))
    try:
        until(lambda: len(shopping.model.requests) >= asked + 2)
        run: str = newest_running(shopping.podium)
    finally:
        command.kill()
        command.communicate()
    assert judged_count(shopping.podium, run) == 0
    return run


def test_a_killed_conversation_is_rebuilt_by_its_record(shopping: Shopping) -> None:
    asked = len(shopping.user.requests)
    run = killed_after_a_sale(shopping, "lamp")
    [progress] = shopping.podium.json("eval", "resume", run)["progress"]
    assert (progress["judged_count"], progress["score_sum"]) == (1, 1.0)
    assert len(shopping.user.requests) == asked + 2, "the user was asked again"
    trial = shopping.trial(run)
    assert shopping.posted(run) == Decimal(trial["simulator_cost"]) + Decimal(trial["cost"])


def test_an_environment_that_repeats_another_result_has_diverged(shopping: Shopping) -> None:
    run = killed_after_a_sale(shopping, "clock")
    [progress] = shopping.podium.json("eval", "resume", run)["progress"]
    assert (progress["judged_count"], progress["unjudged_count"]) == (0, 1)
    trial = shopping.trial(run)
    assert trial["explanation"] == "diverged: the results of turn 1 are others than before"
    assert trial["stop_reason"] == "cancelled"


def test_a_program_that_ends_again_and_again_leaves_its_trial_unjudged(shopping: Shopping) -> None:
    shopping.user.push("A mirror, please")
    shopping.model.push(sell("mirror"))
    run, progress = shopping.play("mirror")
    assert progress["unjudged_count"] == 1
    explanation = shopping.trial(run)["explanation"]
    assert explanation == "the program of the environment ended: the roof came down"


def test_a_user_who_costs_more_than_the_run_has_leaves_its_trials_unrun(shopping: Shopping) -> None:
    found = shopping.podium.json("eval", "run", shopping.run_file("lamp", budget_usd="0.000001"))
    assert "a budget that is not a trial's own is spent" in found["evaluation"]["reason"]
    assert found["progress"][0]["not_run_count"] == 1


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"environment": "market"}, "`podium eval setup market` installs it"),
    ({"domain": "toys"}, "there is no domain toys; use furniture"),
    ({"items": ["sofa"]}, "there is no conversation sofa"),
    ({"items": ["chair"]}, "1 of the 1 conversations are judged by a model, such as chair"),
    ({"user": "nobody"}, "there is no tool nobody as user"),
    ({"user": "calculator"}, "the user calculator is no tool of kind llm"),
    ({"user": ""}, "needs a `user`"),
    ({"from": "families"}, "are for tau2, environment"),
]


def test_a_conversation_that_cannot_be_played_is_an_error_before_anything_is_spent(
    shopping: Shopping,
) -> None:
    asked = len(shopping.user.requests)
    for changes, words in MISTAKES:
        ended = shopping.podium("eval", "run", shopping.run_file("lamp", suite=changes))
        assert ended.returncode in (1, 2), changes
        assert words in " ".join(ended.stderr.split()), (changes, ended.stderr)
        assert "Traceback" not in ended.stderr
    assert len(shopping.user.requests) == asked
