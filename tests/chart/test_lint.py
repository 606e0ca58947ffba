"""Helm's own lint, and words that no template may hold."""

import re

import helm_python
import pytest

from chart.rendering import CHARTS, PROFILES, profile

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
