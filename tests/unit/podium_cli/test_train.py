"""`podium train`: tasks, runs on a cluster, versions and their gate."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import json_format
from typer.testing import CliRunner, Result

from builders.evaluations import evaluated
from builders.report_pages import assert_self_contained, document_of
from podium.registry.v1 import policy_pb2
from podium_cli.app import app
from podium_cli.train import progress
from podium_kit.policy_versions import Alias, Aliases, ArtifactRejected, VersionStore
from podium_kit.policy_versions.reports import Report, write_report
from podium_training.tasks.task import Split, Task
from podium_training.tasks.taskset import generate
from unit.podium_kit.policy_versions.test_store import fill, make_manifest

RUNNER = CliRunner()


def test_tasks_are_written_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    options = ["--count", "6", "--family", "dates", "--split", "held-out", "--output", str(path)]
    assert RUNNER.invoke(app, ["train", "tasks", *options]).exit_code == 0
    written = [Task.from_json(line) for line in path.read_text().splitlines()]
    assert written == generate(6, Split.HELD_OUT, families=["dates"])


def test_shown_tasks_do_not_give_the_answer_away() -> None:
    shown = RUNNER.invoke(app, ["train", "tasks", "--count", "2", "--family", "dates", "--json"])
    assert generate(1, Split.TRAIN, families=["dates"])[0].id in shown.stdout
    assert "expected" not in shown.stdout


def test_unknown_family_is_rejected_with_the_known_ones() -> None:
    rejected = RUNNER.invoke(app, ["train", "tasks", "--family", "riddles"])
    assert rejected.exit_code == 2
    assert "arithmetic" in rejected.stderr


def test_another_source_is_read_with_the_faults_of_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "paper.jsonl"
    good = {"index": 1, "category": "qa", "problem": "What is 6 times 7?", "answer": "42"}
    path.write_text(json.dumps(good))
    options = ["train", "tasks", "--from", "paper", "--file", str(path), "--json"]
    splits = [RUNNER.invoke(app, [*options, "--split", split]) for split in Split]
    shown = [json.loads(each.stdout)["tasks"] for each in splits]
    assert [task["id"] for tasks in shown for task in tasks] == ["paper/1"]
    path.write_text("{}")
    rejected = RUNNER.invoke(app, [*options, "--output", str(tmp_path / "out")])
    assert rejected.exit_code == 2
    assert "line 1" in rejected.stderr
    assert not (tmp_path / "out").exists()


def test_a_source_without_its_file_is_rejected() -> None:
    rejected = RUNNER.invoke(app, ["train", "tasks", "--from", "paper"])
    assert rejected.exit_code == 2
    assert "--file" in rejected.stderr


def test_a_run_is_not_submitted_under_an_id_it_cannot_have(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(f"{generate(1, Split.TRAIN)[0].to_json()}\n")
    rejected = RUNNER.invoke(
        app, ["train", "submit", "--task-file", str(path), "--run", "nightly", "--json"]
    )
    assert rejected.exit_code == 2
    assert "run 'nightly' is not a UUIDv7" in rejected.stderr


def test_preferences_are_written_as_policies_that_apply_reads(tmp_path: Path) -> None:
    path = tmp_path / "asks.yaml"
    options = [
        "--count",
        "12",
        "--tool",
        "ask_llm/small",
        "--prefix",
        "asks",
        "--output",
        str(path),
    ]
    assert RUNNER.invoke(app, ["train", "preferences", *options]).exit_code == 0
    policies = list(yaml.safe_load_all(path.read_text()))
    assert [policy["name"] for policy in policies] == [f"asks-{number}" for number in range(12)]
    for policy in policies:
        json_format.ParseDict(policy, policy_pb2.PolicySpec())


# What the commands ask of a cluster, and no more.
KUBECTL = """#!{python}
import json, sys
from pathlib import Path
import yaml
file = Path({file!r})
state = json.loads(file.read_text())
verb, *rest = [each for each in sys.argv[1:] if not each.startswith("--namespace")]
state["asked"].append(sys.argv[1:])
def fail(words):
    file.write_text(json.dumps(state)); sys.exit(words)
def answer(found):
    file.write_text(json.dumps(state)); print(json.dumps(found))
if verb == "create":
    run = yaml.safe_load(sys.stdin.read())
    name = run["metadata"]["generateName"] + "x1"
    run["metadata"] |= {{"name": name, "creationTimestamp": "2026-01-02"}}
    state["runs"].append(run); answer(run)
elif verb == "get" and rest[0] == "configmap":
    if rest[1] != "podium-training": fail("Error from server (NotFound): " + rest[1])
    answer({{"data": {{"run.yaml": state["template"]}}}})
elif verb == "get" and rest[0] == "pods":
    answer({{"items": state["pods"]}})
elif verb == "get" and rest[1] == "-l":
    answer({{"items": state["runs"]}})
elif verb == "get":
    run = next(each for each in state["runs"] if each["metadata"]["name"] == rest[1])
    if state["states"]: run |= state["states"].pop(0)
    answer(run)
elif verb == "logs":
    file.write_text(json.dumps(state)); print(state["logs"])
elif verb == "delete":
    state["runs"] = [each for each in state["runs"] if each["metadata"]["name"] != rest[1]]
    answer({{}})
"""
LABELS = {"app.kubernetes.io/component": "training"}
COMPLETE = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
FAILED = {
    "status": {"conditions": [{"type": "Failed", "status": "True", "message": "no more restarts"}]}
}


class Cluster:
    def __init__(self, folder: Path, kind: str) -> None:
        self.file = folder / "cluster.json"
        template = {"kind": kind, "metadata": {"generateName": "podium-training-"}, "spec": {}}
        state = {"template": json.dumps(template), "runs": [], "pods": [], "states": []}
        self.write(**state, asked=[], logs="")
        program = folder / "kubectl"
        program.write_text(KUBECTL.format(python=sys.executable, file=str(self.file)))
        program.chmod(0o755)

    def write(self, **state: Any) -> None:
        before = json.loads(self.file.read_text()) if self.file.exists() else {}
        self.file.write_text(json.dumps(before | state))

    def read(self, name: str) -> Any:
        return json.loads(self.file.read_text())[name]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("podium_cli.train.cluster.EVERY_S", 0)
    return Cluster(tmp_path, "TrainJob")


def pod(index: int, phase: str, created: str = "1", **status: Any) -> dict[str, Any]:
    labels = {"batch.kubernetes.io/job-completion-index": str(index)}
    name = f"run-{index}-{created}"
    metadata = {"name": name, "labels": labels, "creationTimestamp": created}
    return {"metadata": metadata, "status": {"phase": phase, **status}}


def train(*arguments: str) -> Any:
    return RUNNER.invoke(app, ["train", *arguments])


def test_a_run_is_begun_followed_and_its_name_is_the_result(cluster: Cluster) -> None:
    waiting = {"type": "PodScheduled", "status": "False", "message": "no GPU is free"}
    cluster.write(
        states=[{"spec": {"suspend": True}}, {"spec": {}}, COMPLETE],
        pods=[pod(0, "Running"), pod(1, "Pending", conditions=[waiting])],
    )
    done = train("submit", "--cluster", "--wait", "--namespace", "ml")
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == "podium-training-x1"
    said = done.stderr.splitlines()
    assert said[1:] == ["waits for its queue", "1 of 2 pods run: no GPU is free", "complete"]
    assert all("--namespace=ml" in asked for asked in cluster.read("asked"))


def test_the_progress_line_is_the_trainers_last_step(cluster: Cluster) -> None:
    cluster.write(
        # Of a pod that was replaced nothing is asked.
        pods=[pod(0, "Failed", "1"), pod(0, "Running", "2"), pod(1, "Running", "2")],
        logs='{"message": "step 1 of 500: reward 0.1"}\n{"message": "step 2 of 500: reward 0.2"}',
        states=[{"spec": {}}, COMPLETE],
    )
    done = train("submit", "--cluster", "--wait")
    assert done.stderr.splitlines()[1:] == ["step 2 of 500: reward 0.2", "complete"]
    assert ["logs", "run-0-2", "--tail=200"] in cluster.read("asked")


def test_a_run_that_fails_is_an_error_that_says_where_to_look(cluster: Cluster) -> None:
    cluster.write(states=[FAILED])
    done = train("submit", "--cluster", "--wait")
    assert done.exit_code == 1
    assert "no more restarts" in done.stderr
    assert "podium train logs podium-training-x1" in done.stderr


def test_the_newest_run_is_stopped(cluster: Cluster) -> None:
    runs = [
        {"kind": "TrainJob", "metadata": {"name": name, "creationTimestamp": name}}
        for name in ("2026-02", "2026-03", "2026-01")
    ]
    cluster.write(runs=runs)
    assert train("stop").stdout.strip() == "run 2026-03 ends"
    assert {each["metadata"]["name"] for each in cluster.read("runs")} == {"2026-01", "2026-02"}
    assert cluster.read("asked")[-1][1] == "trainjobs.trainer.kubeflow.org"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["submit"], "--task-file is missing"),
        (["submit", "--cluster", "--task-file", "x.jsonl"], "leave out --task-file"),
        (["submit", "--cluster", "--release", "other"], "training.enabled: true"),
        (["stop"], "podium train submit --cluster"),
        (["logs", "x"], "has no pod yet"),
    ],
    ids=["nothing named", "both", "no training", "no run", "no pod"],
)
def test_what_cannot_be_done_says_why(cluster: Cluster, arguments: list[str], said: str) -> None:
    rejected = train(*arguments)
    assert rejected.exit_code
    assert said in rejected.stderr


def test_without_the_trainer_a_run_is_a_job(tmp_path: Path, cluster: Cluster) -> None:
    cluster = Cluster(tmp_path, "Job")
    assert train("submit", "--cluster").exit_code == 0
    assert train("stop", "podium-training-x1").exit_code == 0
    assert cluster.read("asked")[-1][1:3] == ["jobs.batch", "podium-training-x1"]


def test_a_cluster_that_says_nothing_is_not_waited_for_for_ever(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubectl").write_text("#!/bin/sh\nexec sleep infinity\n")
    monkeypatch.setattr("podium_operations.cluster.training_runs.ANSWER_WITHIN_S", 0.1)
    rejected = train("stop")
    assert rejected.exit_code
    assert "kubectl get: no answer within 0.1 s" in rejected.stderr


OLD, NEW = "policy-demo-v1", "policy-demo-v2"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two versions; the older one is promoted."""
    root = tmp_path / "store"
    for name in (OLD, NEW):
        VersionStore(root).write(make_manifest(name), fill)
    Aliases(root).move(Alias.PROMOTED, OLD)
    return root


def podium(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


def write_evaluations(folder: Path, gain: float, count: int = 40) -> tuple[Path, Path]:
    paths = folder / "new.jsonl", folder / "old.jsonl"
    for path, name, score in zip(paths, (NEW, OLD), (0.5 + gain, 0.5), strict=True):
        lines = [evaluated(task, name, score).model_dump_json() for task in range(count)]
        path.write_text("\n".join(lines))
    return paths


def run_gate(store: Path, gain: float, *options: str, count: int = 40) -> Result:
    new, old = write_evaluations(store.parent, gain, count)
    files = ("--candidate", new, "--promoted", old)
    return podium("gate", NEW, "--store", store, *files, "--json", *options)


def test_a_better_version_passes_the_gate_and_a_worse_one_does_not(store: Path) -> None:
    found = run_gate(store, 0.25)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["verdict"] == "promote"
    (store / "decisions" / f"{NEW}.json").unlink()
    assert run_gate(store, -0.25).exit_code == 1


def test_only_unreferenced_and_unloaded_files_are_deleted(store: Path) -> None:
    names = [f"policy-demo-v{number}" for number in range(3, 8)]
    for name in names:
        VersionStore(store).write(make_manifest(name), fill)
    Aliases(store).move(Alias.CANDIDATE, names[0])
    for name, replicas, faults in zip(
        names, (0, 1, 0, 0), (["retired"], ["retired"], ["retired"], []), strict=False
    ):
        write_report(store, report(name, replicas, faults))
    pruned = podium("prune", "--store", store, "--json")
    assert json.loads(pruned.stdout) == {"removed": [names[2]]}
    assert not (store / names[2]).exists()
    with pytest.raises(ArtifactRejected, match="used before"):
        VersionStore(store).write(make_manifest(names[2]), fill)


def report(name: str, replicas: int, faults: list[str]) -> Report:
    return Report(name=name, ready=False, replicas_ready=0, replicas=replicas, faults=tuple(faults))


def test_the_same_gate_look_is_rejected_the_second_time(store: Path) -> None:
    assert run_gate(store, 0.25, "--looks", "2", count=10).exit_code == 1
    again = run_gate(store, 0.25, "--looks", "2")
    assert again.exit_code == 2
    assert "look 1" in again.stderr
    assert run_gate(store, 0.25, "--looks", "2", "--look", "2").exit_code == 0


@pytest.mark.parametrize("changed", [("--looks", "2"), ("--looks", "3", "--delta", "0.5")])
def test_rules_do_not_change_after_a_look(store: Path, changed: tuple[str, ...]) -> None:
    planned = ("--looks", "1") if changed == ("--looks", "2") else ("--looks", "3")
    assert run_gate(store, -0.25, *planned).exit_code == 1
    again = run_gate(store, 0.25, "--look", "2", *changed)
    assert again.exit_code == 2
    assert " ".join(planned) in again.stderr


@pytest.mark.parametrize(
    ("option", "value", "accepted"),
    [
        ("--cost-max", "-1", "greater than or equal to 0"),
        ("--cost-max", "inf", "finite number"),
        ("--latency-max", "0", "greater than 0"),
    ],
)
def test_a_limit_that_is_none_is_rejected_by_its_option(
    store: Path, option: str, value: str, accepted: str
) -> None:
    rejected = run_gate(store, 0.25, option, value)
    assert rejected.exit_code == 2
    assert option in rejected.stderr
    assert accepted in rejected.stderr
    assert not (store / "decisions").exists()


def test_a_damaged_checkpoint_is_named_and_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podium_training.grpo.run.publisher_of", lambda _: object())
    checkpoint = tmp_path / "run" / "checkpoints" / "step-00000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").write_text("{")
    (checkpoint / "manifest.json").write_text(json.dumps({"state.json": "another digest"}))
    config = {"model": "base", "output": str(tmp_path / "run"), "steps": 1}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({**config, "stream": {"bootstrap": "127.0.0.1:1"}}))
    rejected = podium("publish", path)
    assert rejected.exit_code == 2
    assert "step-00000001" in "".join(rejected.stderr.split())
    assert "is not what was written" in " ".join(rejected.stderr.split())


def write_metrics(folder: Path) -> Path:
    lines = [
        {"step": step, "reward_mean": 0.1 * step, "reward_solved": 0.1 * step, "cost_mean": 0.01}
        | {"drift_mean": 0.02, "lag": 3, "calls search": 0.5, "calls <b>": 1.0}
        | {"rejected malformed": 2, "rejected bad logprob": 1}
        | {"adherence cost cost first": 0.01, "adherence cost even": 0.02}
        | {"adherence preferred": 0.5}
        for step in (1, 2, 2)
    ]
    path = folder / "metrics.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 3, "rew')
    return folder


def test_watching_shows_every_step_once_and_not_the_one_being_written(tmp_path: Path) -> None:
    found = podium("watch", write_metrics(tmp_path), "--no-follow")
    assert [line.split()[1] for line in found.stdout.splitlines()] == ["1", "2"]
    assert "solved 20%" in found.stdout
    assert found.stdout.count("rejected 3") == 2


def test_watching_a_run_that_is_not_there_says_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "sleep", interrupted)
    found = podium("watch", tmp_path / "misspelt")
    assert found.exit_code == 130
    assert "misspelt has no step yet" in " ".join(found.stderr.split())


def test_watching_ends_with_an_error_where_no_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "BEGIN_S", -1.0)
    found = podium("watch", tmp_path / "misspelt")
    assert found.exit_code == 2
    assert "there is no run in" in " ".join(found.stderr.split())


def test_the_report_is_a_page_of_the_steps_that_escapes_markup(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = podium("report", write_metrics(tmp_path), "--output", page)
    assert found.exit_code == 0, found.output
    assert_self_contained(page)
    document = document_of(page)
    assert "<b>" not in page.read_text() and "<b>" in str(document)
    assert document["kind"] == "training" and document["run"] == tmp_path.name
    assert all(isinstance(step["step"], str) for step in document["steps"])
    assert any("adherence cost even" in step["figures"] for step in document["steps"])


def test_a_folder_that_is_no_run_is_reported(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("[]\n")
    assert podium("report", tmp_path).exit_code == 2
    assert podium("watch", tmp_path / "nothing", "--no-follow").exit_code == 2
