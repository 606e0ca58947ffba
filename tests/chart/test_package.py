import copy
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
from chart.pods import containers, pod_templates
from chart.rendering import CHARTS, PROFILES, ROOT, SWITCHES, cases, chart, profile, rendered
from chart.test_values_schema import nested
from podium_operations.cluster.requirements import Integration, integrations, of_modes

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
