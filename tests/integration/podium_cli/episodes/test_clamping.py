"""A budget is never overshot: answers are clamped to what it covers, then the episode stops.

The model is a server that writes as much as it is allowed, as a careless one would.
"""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_orchestrator_tools import manifest
from openai_server import OpenAiServer, Reply

TASK = "How many moons has Mars?"
# 0.2 dollars per million tokens, in or out.
TOKEN = Decimal("0.0000002")
PRICE = """
tenant: default
currency_code: USD
components:
  - {dimension: input_fresh, unit_price: "0.2", per: "1000000"}
  - {dimension: output_text, unit_price: "0.2", per: "1000000"}
"""


def api(podium: CommandLine) -> httpx.Client:
    connection = json.loads((podium.state_dir / "connection.json").read_text())
    headers = {"authorization": f"Bearer {connection['api_key']}"}
    return httpx.Client(base_url=connection["gateway_url"], headers=headers, trust_env=False)


def run(podium: CommandLine, *options: str) -> dict[str, Any]:
    """The episode as it ended."""
    ended = podium("run", TASK, "--tool", "calculator", "--json", *options)
    episode: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])["finished"]["episode"]
    return episode


def entries(podium: CommandLine, episode: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    query = {"episode_id": episode["id"], "kinds": f"ENTRY_KIND_{kind}"}
    with api(podium) as client:
        found: list[dict[str, Any]] = client.get("/v1/entries", params=query).json()["entries"]
    return found


def trajectory(podium: CommandLine, episode: dict[str, Any]) -> dict[str, Any]:
    with api(podium) as client:
        reply = client.get(f"/v1/episodes/{episode['id']}/trajectory").json()
    found: dict[str, Any] = reply["trajectory"]
    return found


def careless(answer: str, prompt_tokens: int = 10) -> Any:
    """Answers with every token that the request allows."""

    def reply(body: Any) -> Reply:
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": body["max_tokens"]}
        return Reply(answer, usage=usage)

    return reply


# Prompts tell measured latencies and what is left, so they differ by a few tokens.
CLAMPED = pytest.approx(512 - 300, abs=40)


@pytest.fixture
def whole_call(podium: CommandLine, model: OpenAiServer, tmp_path: Path) -> Decimal:
    model.push({"answer": "two"})
    (unpriced,) = entries(podium, run(podium), "RESERVE")
    (tmp_path / "price.yaml").write_text(f"sku: {unpriced['sku']}{PRICE}")
    imported = podium("prices", "import", str(tmp_path / "price.yaml"))
    assert imported.returncode == 0, imported.stderr
    model.push({"answer": "two"})
    (reserve,) = entries(podium, run(podium), "RESERVE")
    return Decimal(reserve["amount"]["amount"])


def test_an_answer_is_clamped_to_what_the_budget_covers(
    podium: CommandLine, model: OpenAiServer, whole_call: Decimal
) -> None:
    budget = whole_call - 300 * TOKEN
    model.push(careless('{"answer": "two"}'))
    episode = run(podium, "--budget", f"{budget:f}")
    assert episode["answer"] == "two"
    granted = model.requests[-1]["max_tokens"]
    assert granted == CLAMPED
    call = trajectory(podium, episode)["turns"][0]["model_call"]
    assert call["granted_output_tokens"] == str(granted)
    (reserve,) = entries(podium, episode, "RESERVE")
    (capture,) = entries(podium, episode, "CAPTURE")
    assert Decimal(reserve["amount"]["amount"]) == budget
    assert Decimal(capture["amount"]["amount"]) == (10 + granted) * TOKEN <= budget


def test_an_answer_too_short_to_be_worth_it_stops_the_episode(
    podium: CommandLine, model: OpenAiServer, whole_call: Decimal
) -> None:
    asked = len(model.requests)
    episode = run(podium, "--budget", f"{whole_call - 500 * TOKEN:f}")
    assert episode["stop_reason"] == "STOP_REASON_BUDGET_EXHAUSTED"
    assert len(model.requests) == asked


def test_an_episode_without_money_left_stops_and_its_trajectory_says_why(
    podium: CommandLine, model: OpenAiServer, whole_call: Decimal
) -> None:
    """Turn after turn at its limit, until not even a short answer is covered."""
    budget = whole_call * 3
    calculate = {"thought": "", "tool": "calculator", "arguments": {"expression": "1 + 1"}}
    prompt_tokens = int(whole_call / TOKEN) - 512
    model.push(*[careless(json.dumps(calculate), prompt_tokens)] * 3)
    episode = run(podium, "--budget", f"{budget:f}")
    record = trajectory(podium, episode)
    for view in (episode, record):
        assert view["stop_reason"] == "STOP_REASON_BUDGET_EXHAUSTED"
        assert view["failure"]["kind"] == "FAILURE_KIND_BUDGET_EXHAUSTED"
        assert f"budget episode/{episode['id']}" in view["failure"]["message"]
    captures = entries(podium, episode, "CAPTURE")
    total = sum(Decimal(each["amount"]["amount"]) for each in captures)
    assert Decimal(record["cost"]["amount"]) == Decimal(episode["cost"]["amount"]) == total
    assert 0 < total <= budget


def test_a_teams_budget_covers_the_episodes_that_carry_its_label(
    podium: CommandLine, model: OpenAiServer, whole_call: Decimal
) -> None:
    limit = f"{whole_call - 300 * TOKEN:f}"
    made = podium(
        "budgets", "create", "red-team", "--scope", "team", "--scope-id", "red", "--amount", limit
    )
    assert made.returncode == 0, made.stderr
    model.push(careless('{"answer": "two"}'), careless('{"answer": "two"}'))
    run(podium, "--label", "team=blue")
    assert model.requests[-1]["max_tokens"] == 512
    run(podium, "--label", "team=red")
    assert model.requests[-1]["max_tokens"] == CLAMPED
    podium("budgets", "close", "red-team")


def test_an_orchestrator_below_spends_from_the_budget_of_the_one_above(
    podium: CommandLine, model: OpenAiServer, whole_call: Decimal, tmp_path: Path
) -> None:
    (tmp_path / "researcher.yaml").write_text(manifest())
    podium("tools", "apply", "-f", str(tmp_path / "researcher.yaml"))
    delegate = json.dumps({"thought": "", "tool": "researcher", "arguments": {"task": TASK}})
    model.push(careless(delegate), careless('{"answer": "two"}'), careless('{"answer": "two"}'))
    rich = run(podium, "--tool", "researcher", "--budget", "0.05")
    record = trajectory(podium, rich)
    child = {"id": record["turns"][0]["tool_invocations"][0]["child"]["episode_id"]}
    captures = entries(podium, rich, "CAPTURE") + entries(podium, child, "CAPTURE")
    total = sum(Decimal(each["amount"]["amount"]) for each in captures)
    posted = podium.json("budgets", "show", f"episode/{rich['id']}")["posted"]["amount"]
    assert Decimal(posted) == Decimal(record["features"]["cost"]["amount"]) == total > 0

    # A budget for the first call alone leaves nothing for the child, nor for its caller after it.
    (first,) = (
        Decimal(each["amount"]["amount"])
        for each in entries(podium, rich, "RESERVE")
        if each["key"].endswith("/1/model/0")
    )
    model.push(careless(delegate, int(first / TOKEN) - 512))
    poor = run(podium, "--tool", "researcher", "--budget", f"{first:f}")
    (call,) = trajectory(podium, poor)["turns"][0]["tool_invocations"]
    assert call["child"]["stop_reason"] == "STOP_REASON_BUDGET_EXHAUSTED"
    assert f"budget episode/{poor['id']}" in call["observation"]["failure"]["message"]
    assert poor["stop_reason"] == "STOP_REASON_BUDGET_EXHAUSTED"
    (captured,) = entries(podium, poor, "CAPTURE")
    assert Decimal(poor["cost"]["amount"]) == Decimal(captured["amount"]["amount"])
    assert first - 40 * TOKEN <= Decimal(captured["amount"]["amount"]) <= first
