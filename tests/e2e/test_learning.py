import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from integration.podium_cli.conftest import CommandLine, end_quietly, wait_until_up
from podium_training.tasks.task import Split, Task
from servers.sampling_server import SamplingServer, make_chat_tokenizer, make_speaker
from servers.vllm_server import BASE
from temporary_files import server_folder

# What the model says before it learns, which is mostly wrong.
SAYS = {"x": 0.35, "y": 0.65}
GROUPS, GROUP_SIZE, STEPS = 12, 8, 3
PAIRS = 30
VERSION, UNSEEN = f"policy-letters-v{STEPS}", "policy-letters-v9"
PRICES = """
specs:
- sku: orchestrator/base
  currencyCode: USD
  components: &components
  - {dimension: USAGE_DIMENSION_INPUT_FRESH, unitPrice: "0.2", per: "1000000"}
  - {dimension: USAGE_DIMENSION_OUTPUT_TEXT, unitPrice: "0.2", per: "1000000"}
- sku: llm/base
  currencyCode: USD
  components: *components
"""
POLICY = "name: learn\npreset: balanced\ntraining_consent: true\n"


@dataclass(frozen=True)
class Learner:
    podium: CommandLine
    folder: Path
    model: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def tasks(self, tasks: list[Task]) -> str:
        path = self.folder / f"tasks-{tasks[0].split}.jsonl"
        path.write_text("".join(f"{task.to_json()}\n" for task in tasks))
        return str(path)


def make_tasks(count: int, split: Split) -> list[Task]:
    return [
        Task(f"{split}-{n}", "letters", split, f"Letter {n}?", "exact", {"expected": "x"})
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def learner() -> Iterator[Learner]:
    speaker, tokenizer = make_speaker(SAYS), make_chat_tokenizer()
    with server_folder("learning") as folder, SamplingServer(speaker, tokenizer) as engine:
        model = folder / "model"
        speaker.save_pretrained(model)
        tokenizer.save_pretrained(model)
        podium = CommandLine(folder / "state", {"PODIUM_POLICY_STORE": str(folder / "store")})
        engine_options = ("--openai-base-url", engine.base_url, "--openai-model", BASE)
        process = podium.start("up", *engine_options)
        wait_until_up(podium, process)
        (folder / "prices.yaml").write_text(PRICES)
        podium.json("prices", "import", str(folder / "prices.yaml"))
        (folder / "learn.yaml").write_text(POLICY)
        podium.json("policies", "apply", "-f", str(folder / "learn.yaml"))
        yield Learner(podium, folder, model)
        end_quietly(process, signal.SIGTERM)


def write_run(learner: Learner) -> Path:
    connection = json.loads((learner.podium.state_dir / "connection.json").read_text())
    config = {
        "model": str(learner.model),
        "output": str(learner.folder / "run"),
        "steps": STEPS,
        "stream": {**connection["kafka"], "patience_s": 120},
        "step": {
            # Groups whose episodes all agree teach nothing and are left out.
            "groups": GROUPS // 4,
            "learning_rate": 0.03,
            "weight_decay": 0.0,
            # Some episodes are older than the version before the step.
            "drift_stop": 100.0,
        },
        "lora": {"rank": 8, "alpha": 16},
        "publish": {"store": str(learner.store), "run": "letters"},
    }
    path = learner.folder / "run.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_policy_learns_from_its_own_episodes_and_reaches_users(learner: Learner) -> None:
    podium = learner.podium
    asked = ("run", "Letter 7?", "--tool", "calculator", "--turn-limit", "1")
    assert podium(*asked).stdout.strip() != "x"
    # The answer comes in one turn, so that a task takes one action of the model.
    played = ("--size", str(GROUP_SIZE), "--tools", "2", "--turn-limit", "1", "--max-tokens", "64")
    learnt = learner.tasks(make_tasks(GROUPS, Split.TRAIN))
    measured = learner.tasks(make_tasks(PAIRS, Split.HELD_OUT))
    files = ("--task-file", learnt, "--held-out", measured, "--policy", "learn")
    run = str(write_run(learner))
    decision = podium.json("train", "improve", run, *files, *played, "--promote")
    assert decision["candidate"] == VERSION
    assert decision["bounds"]["score"]["lower"] > 0
    lines = (learner.folder / "run" / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    assert [step["step"] for step in metrics] == [*range(1, STEPS + 1)]
    # The trainer computes the very log-probabilities that the episodes were sampled with.
    assert metrics[0]["drift_mean"] < 1e-3
    assert podium(*asked).stdout.strip() == "x"
    again = podium("train", "improve", run, *files, *played, "--promote")
    assert again.returncode == 0, again.stderr
    assert f"{VERSION} is promoted" in again.stdout
    assert "round" not in again.stderr, "all steps are taken"
    assert_promotions_are_audited(podium)


def assert_promotions_are_audited(podium: CommandLine) -> None:
    shown = podium.json("audit", "log", "--shared", "--action", "PromoteModelVersion")["entries"]
    assert {(each["resource"], each["outcome"]) for each in shown} == {(VERSION, "done")}
    assert all(each["subject"] for each in shown)
    assert "there is no policy version" in podium("train", "promote", UNSEEN).stderr
    assert "nothing to go back to" in podium("train", "rollback").stderr


def test_moving_versions_needs_a_platform_administrators_key(learner: Learner) -> None:
    podium = learner.podium
    made = podium.json("keys", "create", "mallory", "--role", "tenant-admin")
    stranger = CommandLine(podium.state_dir, {"PODIUM_API_KEY": made["key"]})
    url = json.loads((podium.state_dir / "connection.json").read_text())["gateway_url"]
    for arguments in (("versions",), ("promote", VERSION), ("rollback", VERSION)):
        ended = stranger("train", *arguments, "--url", url)
        assert ended.returncode == 1
        assert "platform:admin" in ended.stderr
