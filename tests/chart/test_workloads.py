import json
import re
from pathlib import Path

import helm_python
import pytest
import typer
from scripts.trainer_schema import trainer_schema

from chart.pods import PodTemplate, containers, pod_templates, violations
from chart.rendering import (
    CHARTS,
    Json,
    cases,
    chart,
    label,
    merged,
    named,
    of_kind,
    parsed,
    profile,
    render,
    rendered,
    switched_on,
)
from chart.test_network import policy
from orchestrator_inference.policy_engines.blueprint import EngineRules, engine_of
from orchestrator_inference.policy_engines.kserve_api import APIS
from podium_cli.train import app as train_app
from podium_training.grpo import launch
from podium_training.grpo.config import RunConfig
from podium_training.grpo.ending import LASTING, STREAM_ENDED

WORKER = "podium-episode-worker"
SCALED: Json = {
    "componentDefaults": {"autoscaling": {"enabled": True}},
    "components": {"episode-worker": {"autoscaling": {"enabled": True}}},
}


def triggers(objects: list[Json], name: str = WORKER) -> dict[str, Json]:
    found = named(objects, "ScaledObject", name)["spec"]["triggers"]
    return {one["type"]: one for one in found}


def test_scaled_components_do_not_fight_their_autoscaler_about_replicas() -> None:
    for case in ("production", "keda", "plain"):
        objects = rendered(case)
        scalers = of_kind(objects, "ScaledObject", "HorizontalPodAutoscaler")
        targets = {scaler["spec"]["scaleTargetRef"]["name"] for scaler in scalers}
        assert targets, case
        for deployment in of_kind(objects, "Deployment"):
            scaled = deployment["metadata"]["name"] in targets
            assert ("replicas" not in deployment["spec"]) is scaled, case


def test_with_the_worker_controller_a_scaler_exists_per_version_and_names_nothing() -> None:
    template = of_kind(rendered("production"), "WorkerResourceTemplate")[0]["spec"]["template"]
    assert template["spec"]["scaleTargetRef"] == {}


def test_open_work_alone_scales_workers() -> None:
    objects = render(merged(switched_on("keda"), SCALED))
    assert set(triggers(objects)) == {"metrics-api"}
    assert set(triggers(objects, "podium-gateway")) == {"cpu"}


def test_open_work_is_read_where_the_episodes_server_shows_them() -> None:
    objects = render(merged(switched_on("keda"), SCALED))
    metadata = triggers(objects)["metrics-api"]["metadata"]
    service = named(objects, "Service", "podium-episodes")
    [port] = [one["port"] for one in service["spec"]["ports"] if one["name"] == "metrics"]
    host = "podium-episodes.podium.svc.cluster.local"
    assert metadata["url"] == f"http://{host}:{port}/metrics"


def test_only_where_keda_scales_may_its_operator_read_metrics() -> None:
    keda = chart().values["integrations"]["keda"]["from"]
    readers = [
        one["metadata"]["name"]
        for one in of_kind(render(switched_on("keda")), "NetworkPolicy")
        if {"from": keda, "ports": [{"protocol": "TCP", "port": 9090}]}
        in one["spec"].get("ingress", [])
    ]
    assert readers == ["podium-episodes"]
    assert "keda" not in str(policy(render(), "podium-episodes"))


VERSION = "policy-demo-v12"
UID = {"uid": "a-uid"}
# The cases in which engines are made; the first test compares them with what is rendered.
ON = [
    name
    for name, _ in cases()
    if name in {"production", "multi-tenant"}
    or name.startswith(("kserve", "llmInference", "accelerator", "experts"))
]
COMPONENT = "app.kubernetes.io/component"


def keeper(objects: list[Json]) -> Json:
    deployments = of_kind(objects, "Deployment")
    return next(one for one in deployments if one["metadata"]["name"] == "podium-policy-engines")


def environment(objects: list[Json]) -> dict[str, str]:
    (container,) = keeper(objects)["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"]}


def engine(objects: list[Json]) -> Json:
    settings = environment(objects)
    blueprint = next(
        one
        for one in of_kind(objects, settings["POLICY_ENGINES_KIND"])
        if one["metadata"]["name"] == settings["POLICY_ENGINES_BLUEPRINT"]
    )
    rules = EngineRules(
        settings["POLICY_ENGINES_KIND"],
        settings["POLICY_ENGINES_CLAIM"],
        Path(settings["POLICY_ENGINES_POLICY_STORE"]),
        "policy-engine",
    )
    found = {**blueprint, "metadata": blueprint["metadata"] | UID}
    return engine_of(VERSION, found, rules)


def pod(objects: list[Json]) -> PodTemplate:
    runtimes = of_kind(objects, "ServingRuntime")
    return next(iter(pod_templates([engine(objects), *runtimes])))


def test_engines_are_made_where_kserve_serves_and_nowhere_else() -> None:
    made = [name for name, _ in cases() if "podium-policy-engines" in str(rendered(name))]
    assert made == ON
    assert not [case for case in ON if not of_kind(rendered(case), *APIS)]


@pytest.mark.parametrize("case", ON)
def test_its_pods_pass_the_restricted_profile_and_have_a_network_policy(case: str) -> None:
    objects = rendered(case)
    found = pod(objects)
    assert not violations(found.spec)
    (policy,) = [
        one["spec"]
        for one in of_kind(objects, "NetworkPolicy")
        if one["spec"]["podSelector"]["matchLabels"].items() <= found.labels.items()
    ]
    assert policy["egress"] == []
    assert {"Ingress", "Egress"} == set(policy["policyTypes"])


@pytest.mark.parametrize("case", ON)
def test_one_service_finds_the_engines_and_the_model_servers_does_not(case: str) -> None:
    labels = pod(rendered(case)).labels
    finding = {
        one["metadata"]["name"]
        for one in of_kind(rendered(case), "Service")
        if one["spec"]["selector"].items() <= labels.items()
    }
    assert finding == {"podium-policy-engine"}


@pytest.mark.parametrize("case", ON)
def test_the_keeper_may_do_what_it_does_and_nothing_else(case: str) -> None:
    objects = rendered(case)
    roles = [one for one in of_kind(objects, "Role") if "policy-engines" in one["metadata"]["name"]]
    ((rule,),) = [one["rules"] for one in roles]
    _, plural = APIS[environment(objects)["POLICY_ENGINES_KIND"]]
    assert (rule["apiGroups"], rule["resources"]) == (["serving.kserve.io"], [plural])
    assert set(rule["verbs"]) == {"create", "get", "list", "watch", "patch", "delete"}
    account = keeper(objects)["spec"]["template"]["spec"]["serviceAccountName"]
    bound = [
        subject["name"]
        for one in of_kind(objects, "RoleBinding")
        if one["roleRef"]["name"] == roles[0]["metadata"]["name"]
        for subject in one["subjects"]
    ]
    assert bound == [account]


def test_a_version_is_another_model_on_the_same_machine() -> None:
    objects = rendered("kserve")
    made = engine(objects)["spec"]["predictor"]
    base = of_kind(objects, "InferenceService")[0]["spec"]["predictor"]
    # KServe has nothing to bring: the runtime mounts the versions.
    assert "storageUri" not in made["model"]
    assert made["model"]["env"] == [{"name": "PODIUM_MODEL", "value": f"/mnt/adapters/{VERSION}"}]
    [container] = of_kind(objects, "ServingRuntime")[0]["spec"]["containers"]
    assert container["args"][0] == "$(PODIUM_MODEL)"
    assert "/mnt/adapters" in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert made["model"]["args"][-1] == f"--served-model-name={VERSION}"
    assert made["model"]["resources"] == base["model"]["resources"]
    assert made["deploymentStrategy"] == base["deploymentStrategy"]
    assert made["maxReplicas"] == made["minReplicas"]
    assert made["labels"][COMPONENT] != base["labels"][COMPONENT]


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


def run_pod(objects: list[Json]) -> Json:
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
    (container,) = containers(run_pod(objects))
    said = {each["name"]: each.get("value") for each in container["env"]}
    assert (said["PET_NNODES"], said["PET_NPROC_PER_NODE"]) == ("2", "3")
    assert config(objects, tmp_path).processes == 6
    (service,) = [
        each for each in of_kind(objects, "Service") if label(each) == "Service/podium-training"
    ]
    # The first pod's name, by the Service in whose name pods have theirs.
    assert said["PET_MASTER_ADDR"] == "$(JOB_NAME)-0.podium-training.podium.svc.cluster.local"
    assert run_pod(objects)["subdomain"] == service["metadata"]["name"]
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
    gpus = containers(run_pod(objects))[0]["resources"]["requests"]["nvidia.com/gpu"]
    assert node(objects)["parallelism"] * int(gpus) == 16
    assert node(objects)["completions"] == 2
    assert not [each for each in containers(run_pod(objects))[0]["env"] if "PET_" in each["name"]]
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
    volumes = [each for each in run_pod(objects)["volumes"] if each["name"] == "model"]
    assert {kind for each in volumes for kind in each if kind != "name"} == volume
    egress = next(
        each["spec"]["egress"]
        for each in of_kind(objects, "NetworkPolicy")
        if label(each) == "NetworkPolicy/podium-training"
    )
    reaches_internet = "0.0.0.0/0" in json.dumps(egress)
    assert reaches_internet == model.startswith("hf://")
    assert bool(run_pod(objects).get("initContainers")) == model.startswith("hf://")


def test_a_bucket_is_a_claim() -> None:
    for model in ("s3://models/qwen", "gs://models/qwen"):
        with pytest.raises(helm_python.HelmError, match=f"training.model {model}.*pvc://CLAIM"):
            render(merged(EVERY_RUN, {"training": {"model": model}}))


def test_a_claim_is_named_or_made() -> None:
    def claims(values: Json) -> tuple[list[Json], set[str]]:
        objects = render(merged(EVERY_RUN, values))
        volumes = [each.get("persistentVolumeClaim", {}) for each in run_pod(objects)["volumes"]]
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
        each["name"]: each["mountPath"] for each in containers(run_pod(objects))[0]["volumeMounts"]
    }
    assert str(publish.store) == mounts["adapters"]
    with pytest.raises(helm_python.HelmError, match=r"training\.config\.publish has no store"):
        render(published)


PRODUCTION = typer.main.get_command(train_app).commands["production"]  # type: ignore[attr-defined]
LEARNING: Json = {
    "training": {
        "enabled": True,
        "config": {"publish": {"run": "users"}},
        "production": {
            "enabled": True,
            "policies": ["users", "eu_support"],
            "args": ["--share", "0.1"],
        },
    },
    "inference": {"adapters": {"enabled": True}},
    "tls": {"enabled": True},
}


@pytest.mark.parametrize("switches", [(), ("trainer",)], ids=["Job", "TrainJob"])
def test_a_policy_learns_from_its_users_on_a_schedule(switches: tuple[str, ...]) -> None:
    objects = render(merged(switched_on(*switches), LEARNING))
    jobs = [
        each
        for each in of_kind(objects, "CronJob")
        if each["metadata"]["name"].startswith("podium-training-")
    ]
    assert len({each["metadata"]["name"] for each in jobs}) == 2
    for name, job in zip(("users", "eu_support"), jobs, strict=True):
        assert job["spec"]["concurrencyPolicy"] == "Forbid"
        pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        (container,) = containers(pod)
        assert container["command"][:3] == ["podium", "train", "production"]
        given = [*container["command"][3:], *container["args"]]
        parsed_options = PRODUCTION.make_context("production", given).params
        assert (parsed_options["policy"], parsed_options["share"]) == (name, 0.1)
        assert parsed_options["once"]
        said = {each["name"]: each for each in container["env"]}
        assert said["PODIUM_API_KEY"]["valueFrom"]["secretKeyRef"]["name"] == "podium-production"
        assert said["PODIUM_URL"]["value"].startswith("https://podium-gateway.")
        mounts = {each["mountPath"] for each in container["volumeMounts"]}
        assert {"/mnt/adapters", "/checkpoints", "/etc/podium/training"} <= mounts
        assert Path(said["SSL_CERT_FILE"]["value"]).parent.as_posix() in mounts
        assert not [each for each in said if each.startswith("PET_")]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"config": {"publish": None}}, "set training.config.publish.run"),
        ({"production": {"policies": []}}, "training.production.policies"),
        ({"nodes": 2}, "training.nodes: 1"),
    ],
)
def test_learning_that_could_not_work_is_no_release(more: Json, words: str) -> None:
    with pytest.raises(helm_python.HelmError, match=words):
        render(merged(LEARNING, {"training": more}))


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
    (container,) = containers(run_pod(objects))
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
