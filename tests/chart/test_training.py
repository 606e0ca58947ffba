import json
import re
from pathlib import Path

import helm_python
import pytest
from scripts.trainer_schema import trainer_schema

from chart.pods import containers
from chart.rendering import (
    CHARTS,
    Json,
    cases,
    label,
    merged,
    of_kind,
    parsed,
    profile,
    render,
    rendered,
    switched_on,
)
from podium_training.grpo import launch
from podium_training.grpo.config import RunConfig
from podium_training.grpo.faults import LASTING, STREAM_ENDED

EVERY_RUN: Json = {"training": {"enabled": True}}
TWO_NODES: Json = {"training": {"enabled": True, "nodes": 2, "acceleratorsPerNode": 8}}


def files(objects: list[Json]) -> Json:
    maps = [each["data"] for each in of_kind(objects, "ConfigMap")]
    return next((data for data in maps if "run.yaml" in data), {})


def config(objects: list[Json], folder: Path) -> RunConfig:
    found = parsed(files(objects)["config.yaml"])[0]
    (folder / "file").touch()
    stream = {
        name: str(folder / "file") if str(value).startswith("/etc/podium/kafka/") else value
        for name, value in found["stream"].items()
    }
    return RunConfig.model_validate(found | {"stream": stream})


def run(objects: list[Json]) -> Json:
    found: Json = parsed(files(objects)["run.yaml"])[0]
    return found


def pod(objects: list[Json]) -> Json:
    if run(objects)["kind"] == "Job":
        found: Json = run(objects)["spec"]["template"]["spec"]
        return found
    return node(objects)["template"]["spec"]  # type: ignore[no-any-return]


def node(objects: list[Json]) -> Json:
    runtime = of_kind(objects, "TrainingRuntime")[0]["spec"]
    found: Json = runtime["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    return found


def test_the_schema_of_the_settings_is_the_trainers_own() -> None:
    kept = json.loads((CHARTS / "podium/schema/trainer.json").read_text())
    assert kept == trainer_schema(), "run make chart-docs"


def test_every_case_has_settings_that_the_trainer_takes(tmp_path: Path) -> None:
    trained = [name for name, _ in cases() if files(rendered(name))]
    assert len(trained) > 10
    assert {config(rendered(name), tmp_path).stream.topic for name in trained} == {
        "trajectories.v1"
    }


def test_a_job_starts_as_many_processes_as_its_settings_say(tmp_path: Path) -> None:
    values = merged(TWO_NODES, {"training": {"processesPerNode": 3}})
    objects = render(merged(profile("minimal-cpu"), values))
    job = run(objects)["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 2, 2)
    (container,) = containers(pod(objects))
    said = {each["name"]: each.get("value") for each in container["env"]}
    assert (said["PET_NNODES"], said["PET_NPROC_PER_NODE"]) == ("2", "3")
    assert config(objects, tmp_path).processes == 6
    (service,) = [
        each for each in of_kind(objects, "Service") if label(each) == "Service/podium-training"
    ]
    # The first pod's name, by the Service in whose name pods have theirs.
    assert said["PET_MASTER_ADDR"] == "$(JOB_NAME)-0.podium-training.podium.svc.cluster.local"
    assert pod(objects)["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["publishNotReadyAddresses"]
    assert str(service["spec"]["ports"][0]["port"]) == said["PET_MASTER_PORT"]


def test_the_trainer_starts_one_process_for_each_gpu_and_kueue_counts_every_pod(
    tmp_path: Path,
) -> None:
    objects = render(merged(profile("production"), TWO_NODES))
    asked = run(objects)["spec"]["trainer"]
    assert (asked["numNodes"], asked["numProcPerNode"]) == (2, 8)
    assert config(objects, tmp_path).processes == 16
    # Kueue counts an accelerator for each pod of the runtime's Job.
    gpus = containers(pod(objects))[0]["resources"]["requests"]["nvidia.com/gpu"]
    assert node(objects)["parallelism"] * int(gpus) == 16
    assert node(objects)["completions"] == 2
    assert not [each for each in containers(pod(objects))[0]["env"] if "PET_" in each["name"]]
    assert "Service/podium-training" not in {label(each) for each in objects}


@pytest.mark.parametrize(
    ("model", "folder", "volume"),
    [
        ("pvc://models/qwen/8b", "/mnt/model/qwen/8b", {"persistentVolumeClaim"}),
        ("pvc://models", "/mnt/model", {"persistentVolumeClaim"}),
        ("image:///models/policy", "/models/policy", set()),
        ("hf://Qwen/Qwen3-8B", "/mnt/model", {"emptyDir"}),
    ],
    ids=["folder of a claim", "claim", "image", "hub"],
)
def test_the_base_model_comes_from_where_it_is(
    model: str, folder: str, volume: set[str], tmp_path: Path
) -> None:
    objects = render(merged(EVERY_RUN, {"training": {"model": model}}))
    assert str(config(objects, tmp_path).model) == folder
    volumes = [each for each in pod(objects)["volumes"] if each["name"] == "model"]
    assert {kind for each in volumes for kind in each if kind != "name"} == volume
    egress = next(
        each["spec"]["egress"]
        for each in of_kind(objects, "NetworkPolicy")
        if label(each) == "NetworkPolicy/podium-training"
    )
    reaches_internet = "0.0.0.0/0" in json.dumps(egress)
    assert reaches_internet == model.startswith("hf://")
    assert bool(pod(objects).get("initContainers")) == model.startswith("hf://")


def test_a_bucket_is_a_claim() -> None:
    for model in ("s3://models/qwen", "gs://models/qwen"):
        with pytest.raises(helm_python.HelmError, match=f"training.model {model}.*pvc://CLAIM"):
            render(merged(EVERY_RUN, {"training": {"model": model}}))


def test_a_claim_is_named_or_made() -> None:
    def claims(values: Json) -> tuple[list[Json], set[str]]:
        objects = render(merged(EVERY_RUN, values))
        volumes = [each.get("persistentVolumeClaim", {}) for each in pod(objects)["volumes"]]
        used = {each["claimName"] for each in volumes if each} - {"models"}
        return of_kind(objects, "PersistentVolumeClaim"), used

    assert claims({"training": {"checkpointsClaim": "mine"}}) == ([], {"mine"})
    ((made,), used) = claims({})
    assert used == {made["metadata"]["name"]} == {"podium-training-checkpoints"}
    assert made["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert made["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    ((shared,), _) = claims({"training": {"nodes": 2}})
    assert shared["spec"]["accessModes"] == ["ReadWriteMany"]


def test_versions_go_where_the_engines_take_them_from(tmp_path: Path) -> None:
    published: Json = {"training": {"enabled": True, "config": {"publish": {"run": "first"}}}}
    objects = render(merged(published, {"inference": {"adapters": {"enabled": True}}}))
    publish = config(objects, tmp_path).publish
    assert publish
    mounts = {
        each["name"]: each["mountPath"] for each in containers(pod(objects))[0]["volumeMounts"]
    }
    assert str(publish.store) == mounts["adapters"]
    with pytest.raises(helm_python.HelmError, match=r"training\.config\.publish has no store"):
        render(published)


@pytest.mark.parametrize("switches", [(), ("trainer",)], ids=["Job", "TrainJob"])
def test_a_killed_run_begins_again(switches: tuple[str, ...]) -> None:
    values = merged(
        switched_on(*switches), {"training": {"enabled": True, "nodes": 2, "restarts": 5}}
    )
    objects = render(values)
    if switches:
        runtime = of_kind(objects, "TrainingRuntime")[0]["spec"]["template"]["spec"]
        assert runtime["failurePolicy"]["maxRestarts"] == 5
    else:
        assert run(objects)["spec"]["backoffLimit"] == 10


@pytest.mark.parametrize("switches", [(), ("trainer",)], ids=["Job", "TrainJob"])
def test_a_run_that_would_fail_again_does_not_begin_again(switches: tuple[str, ...]) -> None:
    objects = render(merged(switched_on(*switches), EVERY_RUN))
    job = node(objects) if switches else run(objects)["spec"]
    ends, passes = job["podFailurePolicy"]["rules"]
    assert ends["action"] == "FailJob"
    assert set(ends["onExitCodes"]["values"]) == {LASTING, STREAM_ENDED}
    (container,) = containers(pod(objects))
    assert ends["onExitCodes"]["containerName"] == container["name"]
    # What this command ends with is what its processes ended with.
    assert container["command"][-1] == launch.__name__
    assert passes["action"] == "Ignore"
    if switches:
        (rule,) = failure_policy(objects)["rules"]
        assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])
        # As JobSet's webhook wants it.
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_,:]*", rule["name"])


def failure_policy(objects: list[Json]) -> Json:
    runtime: Json = of_kind(objects, "TrainingRuntime")[0]["spec"]["template"]["spec"]
    found: Json = runtime["failurePolicy"]
    return found


def test_what_the_trainer_lets_nobody_change_has_another_name() -> None:
    """An upgrade with other `restarts` would be rejected: failurePolicy is immutable."""
    found: dict[str, Json] = {}
    for restarts, memory in ((3, "8Gi"), (3, "9Gi"), (4, "8Gi")):
        limits: Json = {"limits": {"memory": memory}, "requests": {"memory": memory}}
        values: Json = {"training": {"enabled": True, "restarts": restarts, "resources": limits}}
        objects = render(merged(switched_on("trainer"), values))
        name = of_kind(objects, "TrainingRuntime")[0]["metadata"]["name"]
        assert run(objects)["spec"]["runtimeRef"]["name"] == name
        assert found.setdefault(name, failure_policy(objects)) == failure_policy(objects)
    assert len(found) == 2
