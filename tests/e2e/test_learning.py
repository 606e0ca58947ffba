import json
from collections.abc import Iterator

import pytest

from e2e.learning_platform import GROUP_SIZE, GROUPS, STEPS, Learner, learning_platform
from integration.podium_cli.conftest import CommandLine
from podium_training.tasks.task import Split, Task

PAIRS = 30
VERSION, UNSEEN = f"policy-letters-v{STEPS}", "policy-letters-v9"


def task_file(learner: Learner, count: int, split: Split) -> str:
    tasks = [
        Task(f"{split}-{n}", "letters", split, f"Letter {n}?", "exact", {"expected": "x"})
        for n in range(count)
    ]
    path = learner.folder / f"tasks-{split}.jsonl"
    path.write_text("".join(f"{task.to_json()}\n" for task in tasks))
    return str(path)


@pytest.fixture(scope="module")
def learner() -> Iterator[Learner]:
    with learning_platform("learning") as learner:
        learner.apply("learn", "preset: balanced\ntraining_consent: true\n")
        yield learner


def test_a_policy_learns_from_its_own_episodes_and_reaches_users(learner: Learner) -> None:
    podium = learner.podium
    asked = ("run", "Letter 7?", "--tool", "calculator", "--turn-limit", "1")
    assert podium(*asked).stdout.strip() != "x"
    # The answer comes in one turn, so that a task takes one action of the model.
    limits = ("--tools", "2", "--turn-limit", "1", "--max-tokens", "64")
    played = ("--size", str(GROUP_SIZE), "--curriculum", *limits)
    learnt = task_file(learner, GROUPS, Split.TRAIN)
    measured = task_file(learner, PAIRS, Split.HELD_OUT)
    files = ("--task-file", learnt, "--held-out", measured, "--policy", "learn")
    run = learner.write_run("letters")
    decision = podium.json("train", "improve", run, *files, *played, "--promote")
    assert decision["candidate"] == VERSION
    assert decision["bounds"]["score"]["lower"] > 0
    lines = (learner.folder / "run-letters" / "metrics.jsonl").read_text().splitlines()
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
    # The other test leaves entries of attempts that were rejected.
    done = [each for each in shown if each["outcome"] == "done"]
    assert {each["resource"] for each in done} == {VERSION}
    assert all(each["subject"] for each in done)
    assert "there is no policy version" in podium("train", "promote", UNSEEN).stderr
    assert "nothing to go back to" in podium("train", "rollback").stderr


def test_moving_versions_needs_a_platform_administrators_key(learner: Learner) -> None:
    podium = learner.podium
    made = podium.json("keys", "create", "mallory", "--role", "tenant-admin")
    stranger = CommandLine(podium.state_dir, {"PODIUM_API_KEY": made["key"]})
    url = learner.connection["gateway_url"]
    for command, *version in (("versions",), ("promote", VERSION), ("rollback", VERSION)):
        ended = stranger("train", command, *version, "--url", url)
        assert ended.returncode == 1
        assert "training:read" in ended.stderr
    admin = CommandLine(podium.state_dir, {"PODIUM_API_KEY": learner.connection["admin_key"]})
    made = admin.json("keys", "create", "mallory", "--role", "ml-engineer")
    reader = CommandLine(podium.state_dir, {"PODIUM_API_KEY": made["key"]})
    assert reader("train", "versions", "--url", url).returncode == 0
    for command in ("promote", "rollback"):
        ended = reader("train", command, VERSION, "--url", url)
        assert ended.returncode == 1
        assert "platform:admin" in ended.stderr
