"""A trained version on its way to users: published, compared, promoted, asked, rolled back."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.podium_cli.conftest import CommandLine, end_quietly, wait_until_up
from podium_training.tasks.task import Call, Split, Task
from policy_version_builders import make_base, publish_adapter
from vllm_server import BASE, VllmServer

VERSION, UNSEEN = "policy-demo-v1", "policy-demo-v9"
TASK = Task(
    "sum-1",
    "arithmetic",
    Split.TRAIN,
    "What is 6 times 7?",
    "numeric",
    {"expected": "42"},
    (Call("calculator", {"expression": "6 * 7"}),),
)


@pytest.fixture(scope="module")
def podium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """A platform with a store, whose engine knows better with the adapter than without."""
    folder = tmp_path_factory.mktemp("platform")
    store = folder / "store"
    with VllmServer(make_base()) as engine:
        engine.answers[BASE] = "41"
        podium = CommandLine(folder / "state", {"PODIUM_POLICY_STORE": str(store)})
        options = ("--openai-base-url", engine.base_url, "--openai-model", BASE)
        process = podium.start("up", *options)
        wait_until_up(podium, process)
        publish_adapter(store, 1)
        yield podium
        end_quietly(process, signal.SIGTERM)


def the_version(podium: CommandLine) -> dict[str, Any]:
    """As it is listed once an engine has tried it."""
    found: list[dict[str, Any]] = podium.json("train", "versions", "--wait")["versions"]
    (version,) = found
    assert version["served"]
    return version


def evaluation(podium: CommandLine, folder: Path, model: str) -> Path:
    """Four judged episodes of a model, all of one task."""
    tasks, out = folder / "tasks.jsonl", folder / f"{model}.jsonl"
    tasks.write_text(TASK.to_json())
    options = ("--size", "4", "--tools", "2", "--model", model, "--evaluation", str(out))
    podium.json("train", "rollout", "--task-file", str(tasks), *options)
    return out


def test_a_version_reaches_users_when_an_administrator_promotes_it(
    podium: CommandLine, tmp_path: Path
) -> None:
    assert the_version(podium)["aliases"] == ["candidate"]
    rejected = podium("train", "promote", VERSION)
    assert "no gate has decided" in rejected.stderr
    new, old = (evaluation(podium, tmp_path, model) for model in ("candidate", BASE))
    files = ("--candidate", str(new), "--promoted", str(old))
    decision = podium.json("train", "gate", VERSION, *files, "--pairs-min", "1")
    assert decision["bounds"]["score"]["lower"] == 1
    assert podium("run", TASK.question).stdout.strip() == "41"
    promoted = podium.json("train", "promote", VERSION)
    assert promoted["version"]["aliases"] == ["candidate", "promoted"]
    assert podium("run", TASK.question).stdout.strip() == "42"
    entries = podium.json("audit", "log", "--shared", "--action", "PromoteModelVersion")["entries"]
    outcomes = [(each["resource"], each["outcome"]) for each in entries]
    assert outcomes == [(VERSION, "done"), (VERSION, "rejected")]
    assert entries[0]["subject"]
    assert "there is no policy version" in podium("train", "promote", UNSEEN).stderr
    assert "nothing to go back to" in podium("train", "rollback").stderr


def test_moving_versions_needs_a_platform_administrators_key(podium: CommandLine) -> None:
    made = podium.json("keys", "create", "mallory", "--role", "tenant-admin")
    stranger = CommandLine(podium.state_dir, {"PODIUM_API_KEY": made["key"]})
    url = json.loads((podium.state_dir / "connection.json").read_text())["gateway_url"]
    for arguments in (("versions",), ("promote", VERSION), ("rollback", VERSION)):
        ended = stranger("train", *arguments, "--url", url)
        assert ended.returncode == 1
        assert "platform:admin" in ended.stderr
