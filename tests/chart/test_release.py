import copy
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import helm_python
import pytest
import yaml
from helm_python import Chart, HelmError

from chart.golden import differences, objects_of, written_of
from chart.immutable import CASES, RELEASES, immutable_fields
from chart.pods import containers, pod_templates
from chart.rendering import (
    CHARTS,
    PROFILES,
    ROOT,
    SWITCHES,
    Json,
    cases,
    chart,
    label,
    merged,
    of_kind,
    profile,
    render,
    rendered,
)
from chart.test_values_schema import nested
from podium_operations.cluster.requirements import Integration, integrations, of_modes

COMPONENT = "app.kubernetes.io/component"
SERVERS = {"postgres": 5432, "temporal": 7233, "kafka": 9092}
# Of a small machine: cores in thousandths, mebibytes.
CPU_MAX, MEMORY_MAX = 1500, 5 * 1024


def with_claims() -> list[Json]:
    claims = {"enabled": True, "storageClassName": "fast"}
    return render(merged(profile("evaluation"), {"servers": {"enabled": True, "claims": claims}}))


def stateful_set(objects: list[Json], name: str) -> Json:
    found = of_kind(objects, "StatefulSet")
    spec: Json = next(one for one in found if one["metadata"]["name"] == f"podium-{name}")["spec"]
    return spec


def thousandths(cpu: str) -> int:
    return int(cpu.removesuffix("m")) if cpu.endswith("m") else int(cpu) * 1000


def mebibytes(memory: str) -> int:
    return int(memory[:-2]) * {"Mi": 1, "Gi": 1024}[memory[-2:]]


def test_it_finds_its_own_servers() -> None:
    objects = rendered("evaluation")
    services = {
        (one["metadata"]["name"], one["spec"]["ports"][0]["port"])
        for one in of_kind(objects, "Service")
    }
    assert {(f"podium-{name}", port) for name, port in SERVERS.items()} <= services
    endpoints = profile("evaluation")["endpoints"]
    assert endpoints["temporal"]["target"] == f"podium-temporal:{SERVERS['temporal']}"
    assert endpoints["kafka"]["bootstrap"] == f"podium-kafka:{SERVERS['kafka']}"
    # Clients are sent to the address that a broker advertises.
    assert endpoints["kafka"]["bootstrap"] in str(stateful_set(objects, "kafka"))


def test_every_secret_that_a_pod_reads_is_made_by_a_job_of_the_release() -> None:
    objects = rendered("evaluation")
    roles = [rule for one in of_kind(objects, "Role") for rule in one["rules"]]
    made = {name for rule in roles for name in rule.get("resourceNames", ())}
    wanted = set()
    for pod in pod_templates(objects):
        for container in containers(pod.spec):
            for variable in container.get("env", ()):
                if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
                    wanted.add(reference["name"])
        for volume in pod.spec.get("volumes", ()):
            wanted |= {volume["secret"]["secretName"]} if "secret" in volume else set()
            sources = volume.get("projected", {}).get("sources", ())
            wanted |= {one["secret"]["name"] for one in sources if "secret" in one}
    assert "podium-postgres-admin" in wanted
    assert wanted <= made


def test_the_password_is_made_before_anything_reads_it_and_nothing_of_that_stays() -> None:
    hooks = [
        one
        for one in rendered("evaluation")
        if "pre-install" in one["metadata"].get("annotations", {}).get("helm.sh/hook", "")
    ]
    kinds = {one["kind"] for one in hooks}
    assert kinds == {"ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "Job"}
    weight = {
        one["kind"]: int(one["metadata"]["annotations"]["helm.sh/hook-weight"]) for one in hooks
    }
    assert all(weight[kind] < weight["Job"] for kind in kinds - {"Job"})
    for one in hooks:
        policy = one["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        assert policy == "before-hook-creation,hook-succeeded", label(one)


def test_servers_keep_data_in_claims_where_asked_and_beside_the_pod_otherwise() -> None:
    for name in ("postgres", "temporal"):
        spec = stateful_set(rendered("evaluation"), name)
        assert "volumeClaimTemplates" not in spec
        volumes = {one["name"]: one for one in spec["template"]["spec"]["volumes"]}
        assert "emptyDir" in volumes["data"]
        claimed = stateful_set(with_claims(), name)
        [claim] = claimed["volumeClaimTemplates"]
        assert claim["spec"]["storageClassName"] == "fast"
        assert "data" not in {one["name"] for one in claimed["template"]["spec"]["volumes"]}
    assert "volumeClaimTemplates" not in stateful_set(with_claims(), "kafka")


def test_no_other_profile_has_servers() -> None:
    for name in ("minimal-cpu", "dev", "production", "multi-tenant"):
        assert not of_kind(rendered(name), "StatefulSet")


def test_it_fits_a_small_machine() -> None:
    asked = [
        container["resources"]["requests"]
        for pod in pod_templates(rendered("evaluation"))
        if not pod.owner.startswith("Pod/")
        for container in containers(pod.spec)
    ]
    assert sum(thousandths(each["cpu"]) for each in asked) <= CPU_MAX
    assert sum(mebibytes(each["memory"]) for each in asked) <= MEMORY_MAX


def test_the_engine_serves_the_policy_that_its_image_holds() -> None:
    deployments = of_kind(rendered("evaluation"), "Deployment")
    [server] = [one for one in deployments if one["metadata"]["name"] == "podium-model-server"]
    [container] = server["spec"]["template"]["spec"]["containers"]
    made = re.search(
        r"^COPY --from=build (/models/\S+)", (ROOT / "Dockerfile.engine").read_text(), re.M
    )
    assert made
    assert container["args"][0] == made.group(1)
    prices = yaml.safe_load((ROOT / "bundled/prices.yaml").read_text())["specs"]
    assert profile("evaluation")["inference"]["sku"] in {one["sku"] for one in prices}


def test_the_notes_print_the_two_commands_of_the_guide() -> None:
    files = chart().render(profile("evaluation"), name="podium", namespace="podium")
    [notes] = [text for path, text in files.items() if path.endswith("NOTES.txt")]
    assert "NOT FOR PRODUCTION" in notes
    guide = (ROOT / "docs/install.md").read_text()
    printed = notes[notes.index("  kubectl wait") : notes.index("country_facts")]
    commands = " ".join(printed.replace("\\\n", " ").split())
    assert commands.count("kubectl wait") == 2
    assert commands in " ".join(guide.replace("\\\n", " ").split())


NAMES = ("podium", "podium-tenant", "podium-crds")


@pytest.mark.parametrize("name", NAMES)
def test_packing_twice_gives_the_same_digest(name: str, tmp_path: Path) -> None:
    digests = set()
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        archive = helm_python.package(str(CHARTS / name), destination=str(tmp_path / folder))
        digests.add(helm_python.digest(archive))
    assert len(digests) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_package_renders_what_the_folder_renders(name: str, tmp_path: Path) -> None:
    archive = Path(helm_python.package(str(CHARTS / name), destination=str(tmp_path)))
    packed, folder = (
        one.render({}, name="podium", namespace="podium")
        for one in (Chart.load_archive(archive.read_bytes()), Chart.load(str(CHARTS / name)))
    )
    assert packed == folder


def test_the_package_holds_what_users_need_and_nothing_of_ours(tmp_path: Path) -> None:
    archive = helm_python.package(str(CHARTS / "podium"), destination=str(tmp_path))
    with tarfile.open(archive) as packed:
        names = {name.removeprefix("podium/") for name in packed.getnames()}
    wanted = {"README.md", "UPGRADING.md", "values.schema.json", "profiles/production.yaml"}
    assert wanted <= names
    assert not [name for name in names if name.startswith(("schema/", "crds/", "charts/"))]


@pytest.mark.parametrize("name", NAMES)
def test_the_version_is_the_projects(name: str) -> None:
    metadata = yaml.safe_load((CHARTS / name / "Chart.yaml").read_text())
    project = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert project
    assert metadata["version"] == metadata["appVersion"] == project.group(1)


def test_artifact_hub_lists_every_podium_image() -> None:
    metadata = yaml.safe_load((CHARTS / "podium/Chart.yaml").read_text())
    images = yaml.safe_load(metadata["annotations"]["artifacthub.io/images"])
    used = {
        one["image"]
        for profile in ("production", "evaluation")
        for pod in pod_templates(rendered(profile))
        for one in containers(pod.spec)
        if one["image"].removeprefix("localhost/").startswith("podium/")
    }
    assert {image["image"] for image in images} == {one.removeprefix("localhost/") for one in used}


def test_make_builds_the_images_of_the_chart_and_no_others() -> None:
    made = re.search(r"^IMAGES := (.+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert made
    values = yaml.safe_load((CHARTS / "podium/values.yaml").read_text())
    own = [*values["components"].values(), values["componentDefaults"], values["training"]]
    own.append(profile("evaluation")["inference"]["engine"])
    used = {one["image"]["repository"] for one in own if "image" in one}
    assert used == {f"podium/{name}" for name in made.group(1).split()}


def test_every_service_runs_in_a_component_of_the_chart() -> None:
    services = {path.parent.name for path in (ROOT / "services").glob("*/__main__.py")}
    values = yaml.safe_load((CHARTS / "podium/values.yaml").read_text())
    assert services <= {one["args"][0] for one in values["components"].values()}


MOVED = [
    (name, line["key"], line["since"], line["hint"])
    for name in ("podium", "podium-tenant")
    for line in yaml.safe_load((CHARTS / name / "deprecated.yaml").read_text())
]


@pytest.mark.parametrize(("name", "key", "since", "hint"), MOVED)
def test_a_key_that_moved_says_where_to(name: str, key: str, since: str, hint: str) -> None:
    with pytest.raises(HelmError) as rejection:
        chart(name).render(nested(key, "anything"), name="podium", namespace="podium")
    assert f"{key} is gone since {since}: {hint}" in str(rejection.value)


def test_the_upgrade_guide_lists_every_key_that_moved() -> None:
    guide = (CHARTS / "podium/UPGRADING.md").read_text()
    assert not [key for _, key, _, _ in MOVED if f"`{key}`" not in guide]


FIX = "if that is meant: make chart-docs"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_renders_what_was_written_down(profile: str) -> None:
    found = list(differences(written_of(profile), objects_of(profile)))
    assert not found, "\n".join([*found[:20], FIX])


def test_a_change_is_reported_by_its_path() -> None:
    before = objects_of("minimal-cpu")
    now = copy.deepcopy(before)
    del now["Service/podium-gateway"]["spec"]["ports"][0]["port"]
    (found,) = differences(before, now)
    assert found.startswith("Service/podium-gateway.spec.ports[0].port: 8080 -> null")


BUILT_IN = ("networking.k8s.io/", "rbac.authorization.k8s.io/")


def kinds_of(table: Iterable[Integration]) -> set[tuple[str, str]]:
    return {(api, kind) for each in table for api, kinds in each.apis.items() for kind in kinds}


def test_the_doctor_checks_the_api_of_every_custom_resource() -> None:
    made = {
        (obj["apiVersion"], obj["kind"])
        for case, _ in cases()
        for obj in rendered(case)
        if "." in obj["apiVersion"].partition("/")[0] and not obj["apiVersion"].startswith(BUILT_IN)
    }
    made |= {("trainer.kubeflow.org/v1alpha1", "TrainJob"), ("keda.sh/v1alpha1", "ScaledObject")}
    by_switch = kinds_of(integrations().values())
    assert by_switch <= made
    assert made - by_switch == {("serving.kserve.io/v1alpha2", "LLMInferenceService")}
    assert made - by_switch <= kinds_of(of_modes()["llmInferenceService"])


def test_schema_and_tables_are_generated_from_the_values() -> None:
    command = [sys.executable, "scripts/chart_docs.py", "--check"]
    command += ["charts/podium", "charts/podium-tenant", "charts/podium-crds"]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


def test_every_switch_is_tried() -> None:
    assert set(SWITCHES) == set(chart().values["integrations"])


def test_every_key_has_a_comment() -> None:
    for name in ("podium", "podium-tenant", "podium-crds"):
        lines = (CHARTS / name / "values.yaml").read_text().splitlines()
        for before, line in pairwise(lines):
            if line and line[0].isalpha():
                assert before.startswith("#"), f"{name}: {line} has no comment"


FILES = sorted(RELEASES.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_immutable_fields_are_those_of_the_release(path: Path) -> None:
    released = json.loads(path.read_text())
    for case in CASES:
        now = immutable_fields(case)
        assert {name: now[name] for name in released[case] if name in now} == {
            name: fields for name, fields in released[case].items() if name in now
        }, case


def test_no_workload_of_a_release_was_renamed() -> None:
    for path in FILES:
        released = json.loads(path.read_text())
        for case in CASES:
            assert set(released[case]) <= set(immutable_fields(case)), f"{path.stem}: {case}"


def test_this_version_has_written_down_what_it_promises() -> None:
    version = yaml.safe_load((CHARTS / "podium/Chart.yaml").read_text())["version"]
    assert f"{version}.json" in {path.name for path in FILES}


POD_CHANGES: list[Json] = [
    {"imagePullSecrets": [{"name": "pull"}]},
    {"commonLabels": {"team": "search"}},
    {"podSecurity": {"user": 1000}},
    {"components": {"gateway": {"nodeSelector": {"pool": "services"}}}},
    {"componentDefaults": {"tolerations": [{"key": "services", "operator": "Exists"}]}},
    {"componentDefaults": {"image": {"pullPolicy": "Always"}}},
]


@pytest.mark.parametrize("change", POD_CHANGES, ids=str)
def test_a_job_whose_pod_changes_is_another_job(change: Json) -> None:
    """The template of a Job is immutable: under the same name the upgrade would be rejected."""
    [before], [after] = (of_kind(render(values), "Job") for values in ({}, change))
    assert before["spec"]["template"] != after["spec"]["template"]
    assert before["metadata"]["name"] != after["metadata"]["name"]


def test_values_of_every_case_are_still_accepted() -> None:
    for _, values in cases():
        chart().validate_schema(values)


# Each of these makes two renderings of the same values differ, or ask a cluster.
FORBIDDEN = re.compile(
    r"\b(lookup|rand\w+|gen(CA|SelfSignedCert|SignedCert|PrivateKey)\w*|now|htpasswd|uuidv4|getHostByName)\b"
    r"|\.Capabilities\b|\.Release\.(Revision|IsUpgrade|IsInstall)\b"
)
COMMENT = re.compile(r"\{\{-?\s*/\*.*?\*/\s*-?\}\}", re.DOTALL)
ACTION = re.compile(r"\{\{.*?\}\}", re.DOTALL)


@pytest.mark.parametrize("name", ["podium", "podium-tenant", "podium-crds"])
def test_helm_finds_nothing_to_say(name: str) -> None:
    report = helm_python.lint(str(CHARTS / name), strict=True, kube_version="v1.30.0")
    assert report["messages"] == []
    assert report["errors"] == []


@pytest.mark.parametrize("name", PROFILES)
def test_helm_lint_has_no_findings_for_a_profile(name: str) -> None:
    report = helm_python.lint(str(CHARTS / "podium"), profile(name), strict=True)
    assert report["messages"] == []


def test_no_template_asks_a_cluster_a_clock_or_a_die() -> None:
    found = [
        f"{path.relative_to(CHARTS)}: {match.group()}"
        for path in CHARTS.rglob("templates/**/*")
        if path.is_file()
        for action in ACTION.findall(COMMENT.sub("", path.read_text()))
        for match in FORBIDDEN.finditer(action)
    ]
    assert not found


@pytest.mark.parametrize("word", ["lookup", "randAlphaNum", "now", "genCA", ".Release.Revision"])
def test_the_search_finds_what_it_looks_for(word: str) -> None:
    assert FORBIDDEN.search("{{ " + word + " }}")
