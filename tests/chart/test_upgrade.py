import json
import re
from pathlib import Path

import helm_python
import pytest
import yaml

from chart.immutable import CASES, RELEASES, immutable_fields
from chart.rendering import CHARTS, PROFILES, Json, cases, chart, of_kind, profile, render

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
