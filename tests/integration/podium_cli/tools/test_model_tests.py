"""`podium tools test`: each model of a tool is called once, and charged as any call is."""

import json
import threading
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_direct_calls import ledger_entries, prices  # noqa: F401 fixtures
from integration.podium_cli.episodes.test_fallback_models import PRICES, as_admin, expert
from integration.podium_cli.tools.test_embeddings import server as embedding_server  # noqa: F401 fixtures
from openai_server import OpenAiServer, Reply

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 40},
}


def rejecting_the_key_of_small(body: Mapping[str, Any]) -> Reply:
    if body["model"] == "small-model":
        return Reply("Incorrect API key provided", status=401)
    return Reply("ok", usage=USAGE)


@pytest.fixture
def server(podium: CommandLine, prices: None) -> Iterator[OpenAiServer]:  # noqa: F811
    """Two priced models as one tool."""
    models = [f"{alias}-model" for alias in PRICES]
    with OpenAiServer(models=models) as server, as_admin(podium) as client:
        tool = {"spec": expert(server.base_url), "shared": True}
        registered = client.post("/v1/tools", json=tool)
        assert registered.is_success, registered.text
        yield server
        assert client.delete("/v1/tools/expert").is_success


def test_each_model_is_called_once_and_charged(podium: CommandLine, server: OpenAiServer) -> None:
    server.push(*[Reply("ok", usage=USAGE)] * 2)
    tests = podium.json("tools", "test", "expert")["models"]
    assert [(each["alias"], each["status"]) for each in tests] == [("small", "ok"), ("large", "ok")]
    assert sorted(asked["model"] for asked in server.requests) == ["large-model", "small-model"]
    assert {asked["max_tokens"] for asked in server.requests} == {16}
    for each in tests:
        price = 110 * PRICES[each["alias"]]
        reserve, capture = ledger_entries(podium, each["call"]["ledger_key"])
        assert (reserve["kind"], capture["kind"]) == ("ENTRY_KIND_RESERVE", "ENTRY_KIND_CAPTURE")
        assert Decimal(each["call"]["cost"]["amount"]) == price
        assert Decimal(capture["amount"]["amount"]) == price


def test_a_model_that_starts_is_waited_for_as_long_as_the_timeout_says(
    podium: CommandLine, server: OpenAiServer
) -> None:
    """Its first answer comes when the test has ended: no pod is there before."""
    starts = threading.Event()

    def starting(body: Mapping[str, Any]) -> Reply:
        starts.wait()
        return Reply("ok", usage=USAGE)

    server.push(*[starting] * 2)
    try:
        ended = podium("tools", "test", "expert", "--timeout", "1s", "--json")
    finally:
        starts.set()
    assert ended.returncode == 1
    for each in json.loads(ended.stdout)["models"]:
        assert (each["status"], each["call"]) == ("no answer", None)
        assert "--timeout" in each["fix"]


def test_a_failed_model_is_shown_with_cause_and_fix_beside_the_others(
    podium: CommandLine, server: OpenAiServer
) -> None:
    server.push(*[rejecting_the_key_of_small] * 4)
    ended = podium("tools", "test", "expert")
    assert ended.returncode == 1
    header, small, large, cause, fix = ended.stdout.splitlines()
    assert header.split("\t") == ["alias", "model", "status", "in", "out", "price", "latency"]
    assert small.split("\t")[:6] == ["small", "small-model", "permission_denied", "0", "0", "$0"]
    assert large.split("\t")[:6] == ["large", "large-model", "ok", "100", "10", "$0.00022"]
    assert large.split("\t")[6]
    assert cause.startswith("small: ") and "Incorrect API key provided" in cause
    assert fix.startswith(" fix: ") and "podium secrets set" in fix

    as_json = podium("tools", "test", "expert", "--json")
    assert as_json.returncode == 1
    [failed, answered] = json.loads(as_json.stdout)["models"]
    assert (failed["status"], answered["status"]) == ("permission_denied", "ok")
    assert "podium secrets set" in failed["fix"]


def test_the_policy_and_the_budget_hold_for_each_call(
    podium: CommandLine, server: OpenAiServer, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("{name: no-experts, preset: balanced, deny: {names: [expert]}}")
    applied = podium("policies", "apply", "-f", str(path))
    assert applied.returncode == 0, applied.stderr
    denied = podium("tools", "test", "expert", "--policy", "no-experts")
    assert denied.returncode == 1
    assert denied.stdout.count("\trejected\t") == 2
    poor = podium("tools", "test", "expert", "--budget", "0.0000000001")
    assert poor.returncode == 1
    assert poor.stdout.count("\tbudget_exhausted\t") == 2
    assert not server.requests


def test_a_model_that_makes_vectors_is_given_a_text(
    podium: CommandLine,
    embedding_server: OpenAiServer,  # noqa: F811
) -> None:
    [test] = podium.json("tools", "test", "embedder")["models"]
    assert (test["alias"], test["status"]) == ("small", "ok")
    assert len(embedding_server.requests) == 1


def test_a_tool_without_models_is_tried_instead(podium: CommandLine) -> None:
    ended = podium("tools", "test", "calculator")
    assert ended.returncode == 2
    assert "calculator has no models" in ended.stderr
    assert "podium tools try calculator" in ended.stderr
