import json
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from integration.podium_cli.conftest import (
    CommandLine,
    Platform,
    end_quietly,
    engine_options,
    wait_until_up,
)
from openai_server import OpenAiServer
from podium_operations.local.state import StateFolder

CANARY = "xylophone-4711"


def test_status_names_every_process_as_ready(podium: CommandLine) -> None:
    processes = {each["name"]: each for each in podium.json("status")["processes"]}
    services = {"gateway", "episodes", "episodes-worker", "cost-ledger", "tool-registry"}
    assert services | {"tool-adapters", "orchestrator-inference", "postgres"} <= set(processes)
    assert {each["state"] for each in processes.values()} == {"ready"}
    assert all(each["memory_bytes"] > 0 for each in processes.values())


def test_a_killed_service_is_started_again(podium: CommandLine) -> None:
    before = registry_status(podium)["pid"]
    psutil.Process(before).kill()
    while (after := registry_status(podium))["state"] != "ready" or after["pid"] == before:
        assert after["state"] in ("ready", "dead", "not answering")
    assert podium("tools", "list").returncode == 0


def registry_status(podium: CommandLine) -> dict[str, Any]:
    processes = json.loads(podium("status", "--json").stdout)["processes"]
    [found] = [each for each in processes if each["name"] == "tool-registry"]
    return dict(found)


def test_a_second_up_on_the_same_folder_is_rejected_and_the_first_keeps_running(
    platform: Platform,
) -> None:
    ended = platform.podium("up", *engine_options(platform.model))
    assert ended.returncode == 1
    assert "already up" in ended.stderr
    assert platform.podium("status").returncode == 0


def test_neither_logs_nor_spans_hold_prompts_or_keys(platform: Platform) -> None:
    platform.model.push({"answer": "Nothing."})
    ended = platform.podium("run", f"What is 6 x 7, {CANARY}?", "--json")
    finished = json.loads(ended.stdout.splitlines()[-1])["finished"]
    state = StateFolder(platform.podium.state_dir)
    connection = state.read_connection()
    reply = httpx.post(
        f"{connection.gateway_url}/v1/episodes",
        json={"episode_id": "x", "spec": {"task": CANARY}},
        headers={"authorization": f"Bearer {connection.api_key}"},
        trust_env=False,
    )
    assert reply.status_code == 400
    trace_id = finished["episode"]["id"].replace("-", "")
    spans = state.telemetry / "episodes-worker.jsonl"
    # Spans are written in batches.
    while not spans.exists() or trace_id not in spans.read_text():
        time.sleep(0.05)
    secret = connection.api_key.split("_", 1)[-1]
    for path in (path for folder in (state.logs, state.telemetry) for path in folder.iterdir()):
        written = path.read_text(errors="replace")
        assert CANARY not in written, path.name
        assert secret not in written, path.name


@pytest.mark.chaos
@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGTERM])
def test_a_platform_interrupted_while_it_starts_leaves_nothing_running(
    tmp_path: Path, with_signal: signal.Signals
) -> None:
    with OpenAiServer() as model:
        process = CommandLine(tmp_path).start("up", *engine_options(model))
        assert process.stderr is not None
        assert "model server ready" in process.stderr.readline()
        assert "PostgreSQL ready" in process.stderr.readline()
        end_quietly(process, with_signal)
    assert not (tmp_path / "connection.json").exists()


@pytest.mark.chaos
def test_down_stops_a_platform_in_the_background_and_the_next_up_keeps_what_was_there(
    tmp_path: Path,
) -> None:
    podium = CommandLine(tmp_path / "state")
    with OpenAiServer() as model, OpenAiServer() as other_model:
        first = podium.json("up", "--detach", *engine_options(model))
        model.push({"answer": "remembered"})
        assert podium("run", "Say remembered").stdout == "remembered\n"
        change_bundled_tools(podium, tmp_path)
        assert podium("down").returncode == 0
        assert podium("status").returncode == 1
        process = podium.start("up", *engine_options(other_model))
        wait_until_up(podium, process)
        assert "Say remembered" in podium("episodes", "list").stdout
        assert_as_changed(podium, other_model)
        assert podium.json("models", "--url", first["url"], "--api-key", first["api_key"])
        end_quietly(process, signal.SIGINT)


def change_bundled_tools(podium: CommandLine, folder: Path) -> None:
    changed = folder / "changed"
    changed.mkdir()
    for name in ("calculator", "ask_llm"):
        spec = podium.json("tools", "show", name, "--shared")["tool"]["spec"]
        (changed / f"{name}.json").write_text(json.dumps(spec | {"description": "the admin's"}))
    applied = podium("tools", "apply", "--shared", "-f", str(changed))
    assert applied.stdout.splitlines() == ["ask_llm v2 registered", "calculator v2 registered"]
    podium("tools", "deprecate", "--shared", "dictionary")
    podium("tools", "delete", "--shared", "day_of_week")


def assert_as_changed(podium: CommandLine, model: OpenAiServer) -> None:
    """The next start kept every change, and unchanged fields follow the engine."""
    tools = {tool["spec"]["name"]: tool for tool in podium.json("tools", "list")["tools"]}
    assert not {"dictionary", "day_of_week"} & tools.keys()
    assert tools["calculator"]["spec"]["description"] == "the admin's"
    assert (tools["calculator"]["version"], tools["days_between"]["version"]) == (2, 1)
    asked = podium.json("tools", "show", "ask_llm", "--shared")["tool"]["spec"]
    assert asked["description"] == "the admin's"
    assert asked["connection"]["llm"]["models"][0]["base_url"] == model.base_url


@pytest.mark.parametrize(
    ("options", "cause", "fix"),
    [
        (["--openai-base-url", "http://127.0.0.1:1/v1"], "no model named", "--openai-model"),
        (["--model", "nowhere"], "holds no model", "path"),
    ],
)
def test_an_engine_that_cannot_be_used_is_named_and_nothing_stays(
    tmp_path: Path, options: list[str], cause: str, fix: str
) -> None:
    ended = CommandLine(tmp_path / "state")("up", *options)
    assert ended.returncode in (1, 2)
    assert cause in ended.stderr
    assert fix in ended.stderr
    assert not (tmp_path / "state" / "connection.json").exists()


def test_a_taken_port_is_named_with_its_holder(tmp_path: Path) -> None:
    with OpenAiServer() as model:
        port = model.base_url.rsplit(":", 1)[1].removesuffix("/v1")
        ended = CommandLine(tmp_path)("up", "--port", port, *engine_options(model))
    assert ended.returncode == 1
    assert f"port {port} is held by" in ended.stderr
    assert "choose another port" in ended.stderr


def test_a_model_the_server_does_not_have_suggests_the_one_it_has(tmp_path: Path) -> None:
    with OpenAiServer() as model:
        ended = CommandLine(tmp_path)(
            "up", "--openai-base-url", model.base_url, "--openai-model", "scripted-modle"
        )
    assert ended.returncode == 1
    assert "--openai-model scripted-model" in ended.stderr


def test_doctor_names_what_is_missing(tmp_path: Path) -> None:
    podium = CommandLine(tmp_path, {"PODIUM_CACHE_DIR": str(tmp_path / "empty")})
    ended = podium("doctor")
    assert ended.returncode == 1
    assert "missing: vLLM, model SmolLM2" in ended.stderr
    assert "make setup" in ended.stdout
