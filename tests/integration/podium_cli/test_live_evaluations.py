"""`podium eval ab` and `podium eval shadow` against a whole platform, and its audit log."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.test_evaluation_replays import run
from integration.podium_cli.test_evaluations import policies, progress  # noqa: F401 a fixture
from openai_server import OpenAiServer

DEADLINE_S = 120
TRAFFIC = "name: live-users\npreset: balanced\nunknown_price: admit\n"


@pytest.fixture
def traffic(
    podium: CommandLine,
    policies: None,  # noqa: F811
    tmp_path: Path,
) -> str:
    (tmp_path / "users.yaml").write_text(TRAFFIC)
    podium.json("policies", "apply", "-f", str(tmp_path / "users.yaml"))
    return "live-users"


def audited(podium: CommandLine, live: str) -> list[str]:
    entries = podium.json("audit", "log", "--limit", "50")["entries"]
    return [each["action"] for each in entries if live in json.dumps(each)]


def test_an_ab_test_gives_the_candidate_its_share_until_it_is_stopped(
    podium: CommandLine, model: OpenAiServer, traffic: str
) -> None:
    options = ("--traffic", traffic, "--policy", "eval-cost")
    live = podium.json("eval", "ab", "start", "--share", "0.5", *options)["id"]
    for _ in range(4):
        model.push({"answer": "42"})
        run(podium, "What is 6 times 7?", traffic, "calculator")
    found = podium.json("eval", "ab", "show", live)
    arms = progress(found)
    assert sum(each["unjudged_count"] for each in arms.values()) == 4
    assert found["comparison"]["p_value"] == 1
    shown = podium("eval", "ab", "show", live)
    assert "with 95 % certainty over all looks" in shown.stdout
    stopped = podium.json("eval", "ab", "stop", live, "--reason", "enough")
    assert (stopped["state"], stopped["reason"]) == ("EVALUATION_STATE_ENDED", "enough")
    assert set(audited(podium, live)) == {"StartLiveEvaluation", "StopLiveEvaluation"}


def test_a_shadow_is_paid_from_its_own_budget(
    podium: CommandLine, model: OpenAiServer, traffic: str
) -> None:
    options = ("--traffic", traffic, "--policy", "eval-cost", "--budget", "1")
    live = podium.json("eval", "shadow", "start", "--share", "1", *options)["id"]
    model.push({"answer": "42"}, {"answer": "43"})
    run(podium, "What is 6 times 7?", traffic, "calculator")
    trials = until(podium, live)
    podium.json("eval", "shadow", "stop", live)
    assert trials["candidate"]["unjudged_count"] == trials["current"]["unjudged_count"] == 1
    budget = podium.json("budgets", "show", f"evaluation-{live}")
    assert budget["posted"] == trials["candidate"]["cost"]


def until(podium: CommandLine, live: str) -> dict[str, Any]:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        arms = progress(podium.json("eval", "shadow", "show", live))
        if arms["candidate"]["unjudged_count"]:
            return arms
        assert time.monotonic() < deadline, arms
