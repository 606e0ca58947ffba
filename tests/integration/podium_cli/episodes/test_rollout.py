"""Groups of episodes through the running platform: judged, grouped, and never started twice."""

import json
from pathlib import Path
from typing import Any

from integration.podium_cli.conftest import CommandLine
from openai_server import OpenAiServer
from podium_training.tasks.task import Call, Split, Task

TASK = Task(
    "sum-1",
    "arithmetic",
    Split.TRAIN,
    "What is 6 times 7?",
    "numeric",
    {"expected": "42"},
    (Call("calculator", {"expression": "6 * 7"}),),
)
OPTIONS = ("--size", "3", "--at-once", "1", "--tools", "4")


def call(**arguments: Any) -> dict[str, Any]:
    return {"thought": "", "tool": "calculator", "arguments": arguments}


def test_a_group_is_scored_and_a_resumed_run_starts_nothing_again(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(TASK.to_json())
    arguments = ("train", "rollout", "--task-file", str(path), *OPTIONS)
    model.push(call(expression="6 * 7"), {"answer": "It is 42"}, {"answer": "41"}, {"answer": "42"})
    run = podium.json(*arguments)
    [group] = run["groups"]
    assert [episode["score"] for episode in group["episodes"]] == [1.0, 0.0, 1.0]
    assert "calculator" in group["tools"]
    ids = [episode["id"] for episode in group["episodes"]]

    listed = podium.json("episodes", "list", "--label", f"run={run['run']}")["episodes"]
    places = {each["id"]: each["spec"]["group"] for each in listed}
    assert {group_of["id"] for group_of in places.values()} == {group["group"]}
    assert [places[each]["sample_index"] for each in ids] == [0, 1, 2]

    asked = len(model.requests)
    assert podium.json(*arguments, "--resume", run["run"]) == run
    assert len(model.requests) == asked, "an episode was run again"


def test_to_measure_is_to_sample_greedily_with_the_tools_that_are_always_there(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    path, measured = tmp_path / "tasks.jsonl", tmp_path / "measured.jsonl"
    path.write_text(TASK.to_json())
    arguments = ("train", "rollout", "--task-file", str(path), "--size", "1", "--tools", "1")
    model.push({"answer": "42"})
    always = ("--always", "dictionary", "--always", "calculator")
    run = podium.json(*arguments, *always, "--greedy", "--evaluation", str(measured))
    assert run["groups"][0]["tools"] == ["calculator", "dictionary"]
    assert model.requests[-1]["temperature"] == 0
    assert json.loads(measured.read_text())["task_id"] == TASK.id

    model.push({"answer": "42"})
    podium.json(*arguments, "--temperature", "0.5")
    assert model.requests[-1]["temperature"] == 0.5
    both = podium(*arguments, "--temperature", "0.5", "--greedy")
    assert (both.returncode, "--greedy takes the likeliest" in both.stderr) == (2, True)

    ended = podium(*arguments, "--always", "abacus")
    assert ended.returncode == 2
    assert "abacus is to be offered always" in ended.stderr


def test_a_broken_line_of_a_task_file_is_named(podium: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(TASK.to_json() + "\n" + json.dumps({"id": "x"}))
    ended = podium("train", "rollout", "--task-file", str(path))
    assert ended.returncode == 2
    assert "line 2" in ended.stderr


def test_missing_training_consent_is_noted_before_the_first_episode(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    tasks, policy = tmp_path / "tasks.jsonl", tmp_path / "policy.yaml"
    tasks.write_text(TASK.to_json())
    # This tenant has no price for the scripted model.
    admitting = "unknownPrice: UNKNOWN_PRICE_RULE_ADMIT"
    policy.write_text(f"name: learning\ntrainingConsent: true\n{admitting}\n")
    podium.json("policies", "apply", "-f", str(policy))
    arguments = ("train", "rollout", "--task-file", str(tasks), "--size", "1")
    for options, noted in (((), True), (("--policy", "learning"), False)):
        model.push({"answer": "42"})
        ended = podium(*arguments, *options)
        assert ended.returncode == 0, ended.stderr
        assert ("does not consent to training" in ended.stderr) is noted
        assert ended.stderr.find("does not consent") < ended.stderr.index("1/1")


def test_a_rejected_rollout_is_reported_in_two_lines(podium: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(TASK.to_json())
    ended = podium("train", "rollout", "--task-file", str(path), "--policy", "nosuch")
    assert ended.returncode == 1
    assert "nosuch" in ended.stderr
    assert "Traceback" not in ended.stderr
