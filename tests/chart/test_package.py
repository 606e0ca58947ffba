"""The package: reproducible, complete, with what Artifact Hub shows."""

import re
import tarfile
from pathlib import Path

import helm_python
import pytest
import yaml
from helm_python import Chart

from chart.pods import containers, pod_templates
from chart.rendering import CHARTS, ROOT, profile, rendered

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
