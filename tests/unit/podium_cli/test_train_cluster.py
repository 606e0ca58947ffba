import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from podium_cli.app import app

RUNNER = CliRunner()
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
