"""An upgrade from any release changes no field that Kubernetes rejects to change."""

import json
from pathlib import Path

import pytest
import yaml

from chart.immutable import CASES, RELEASES, immutable_fields
from chart.rendering import CHARTS, Json, cases, chart, of_kind, render

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
