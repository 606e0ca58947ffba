"""`podium doctor --cluster` and the chart's test, against a server of the discovery API."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from certificates import Authority
from chart.rendering import ROOT, SWITCHES, Json, of_kind, profile, rendered
from integration.podium_operations.api_server import ApiServer, everything
from podium_operations.cluster.api_server import ClusterUnreachable, PodAccount
from podium_operations.cluster.examination import examine_cluster
from podium_operations.cluster.requirements import integrations, of_modes


@pytest.fixture
def doctor(tmp_path: Path) -> Iterator["Doctor"]:
    doctor = Doctor(tmp_path)
    yield doctor
    for server in doctor.servers:
        server.close()


class Doctor:
    """Runs the command as a person would, with a kubeconfig of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers: list[ApiServer] = []

    def serving(self, served: dict[str, list[str]], version: str = "v1.36.0") -> str:
        self.servers.append(ApiServer(served, version))
        return self.servers[-1].url

    def examine(self, url: str, values: object) -> subprocess.CompletedProcess[str]:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": url}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "users": [{"name": "me", "user": {}}],
        }
        kubeconfig, file = self.folder / "kubeconfig", self.folder / "values.yaml"
        kubeconfig.write_text(yaml.safe_dump(config))
        file.write_text(yaml.safe_dump(values))
        command = [sys.executable, "-m", "podium_cli", "doctor", "--cluster", "-f", str(file)]
        return subprocess.run(
            [*command, "--json"],
            env={**self._environment(), "KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "PYTHONPATH": ":".join(sys.path),
        }


def findings(run: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """Findings of a run by the name of the check."""
    return {each["what"]: each for each in json.loads(run.stdout)["findings"]}


def test_the_table_names_every_switch_of_the_chart() -> None:
    assert set(integrations()) == set(SWITCHES)


def test_a_cluster_with_everything_satisfies_the_production_profile(doctor: Doctor) -> None:
    run = doctor.examine(doctor.serving(everything()), profile("production"))
    assert run.returncode == 0, run.stderr
    assert all(each["well"] for each in findings(run).values())
    assert len(findings(run)) > 5


def test_each_missing_operator_is_named_with_its_version_and_command(doctor: Doctor) -> None:
    url = doctor.serving({})
    wanted = {switch: each for switch, each in integrations().items() if each.apis}
    run = doctor.examine(url, {"integrations": {switch: {"enabled": True} for switch in wanted}})
    assert run.returncode == 1
    for each in wanted.values():
        found = findings(run)[each.operator]
        assert not found["well"]
        assert all(api in found["finding"] for api in each.apis)
        assert f"{each.minimum} or later: {each.install}" in found["fix"]


def test_an_operator_too_old_to_serve_a_kind_is_missing_that_kind(doctor: Doctor) -> None:
    served = everything()
    served["temporal.io/v1alpha1"].remove("WorkerDeployment")
    values = {"integrations": {"temporalWorkerController": {"enabled": True}}}
    found = findings(doctor.examine(doctor.serving(served), values))
    finding = found["Temporal's worker controller"]["finding"]
    assert finding == "not served: WorkerDeployment of temporal.io/v1alpha1"


def test_llm_inference_services_ask_for_more_than_kserve(doctor: Doctor) -> None:
    served = {api: kinds for each in [integrations()["kserve"]] for api, kinds in each.apis.items()}
    values = {
        "integrations": {"kserve": {"enabled": True}},
        "inference": {"mode": "llmInferenceService"},
    }
    run = doctor.examine(doctor.serving(served), values)
    assert run.returncode == 1
    assert findings(run)["KServe"]["well"]
    for each in of_modes()["llmInferenceService"]:
        found = findings(run)[each.operator]
        assert not found["well"]
        assert f"{each.minimum} or later: {each.install}" in found["fix"]
    assert doctor.examine(doctor.serving(everything()), values).returncode == 0
    without = {"inference": {"mode": "llmInferenceService"}}
    assert set(findings(doctor.examine(doctor.serving({}), without))) == {"Kubernetes"}


def test_what_is_switched_off_is_not_asked_for(doctor: Doctor) -> None:
    run = doctor.examine(doctor.serving({}), profile("minimal-cpu"))
    assert run.returncode == 0, run.stderr
    assert set(findings(run)) == {"Kubernetes"}


def test_an_old_kubernetes_is_rejected(doctor: Doctor) -> None:
    run = doctor.examine(doctor.serving({}, version="v1.29.4"), {})
    assert run.returncode == 1
    assert "1.30 or later" in findings(run)["Kubernetes"]["fix"]


def test_without_a_cluster_the_error_names_the_fix(doctor: Doctor) -> None:
    run = doctor.examine("http://127.0.0.1:1", {})
    assert run.returncode == 1
    assert "refused" in run.stderr
    assert "kubectl version" in run.stderr
    assert "Traceback" not in run.stderr


def test_an_unknown_switch_is_a_usage_error(doctor: Doctor) -> None:
    run = doctor.examine(doctor.serving({}), {"integrations": {"istio": {"enabled": True}}})
    assert run.returncode == 2
    assert "integrations.istio" in run.stderr


def test_the_guide_repeats_operators_and_versions_of_the_table() -> None:
    guide = (ROOT / "k8s/README.md").read_text()
    rows = [line.split("|") for line in guide.splitlines() if line.startswith("| `")]
    said = {
        switch.strip("` "): (cells[2], cells[3]) for cells in rows for switch in cells[1].split(",")
    }
    for switch, each in integrations().items():
        if each.apis:
            assert each.minimum in said[switch][1].split(), switch
    for each in (one for rows in of_modes().values() for one in rows):
        assert f"{each.operator} {each.minimum}" in " ".join(guide.split())


def test_what_others_need_is_named_before_them(doctor: Doctor) -> None:
    asked = ("kserve", "temporalWorkerController", "certManager")
    values = {"integrations": {switch: {"enabled": True} for switch in asked}}
    report = findings(doctor.examine(doctor.serving({}), values))
    named = ["Kubernetes", "cert-manager", "KServe", "Temporal's worker controller"]
    assert list(report) == named


TOKEN = "the-pods-own"


class Pod:
    """A folder as Kubernetes mounts it, and the API server it belongs to."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._authority = folder, Authority(folder, "cluster")
        self._servers: list[ApiServer] = []

    def starts(self, monkeypatch: pytest.MonkeyPatch, served: dict[str, list[str]]) -> PodAccount:
        tls = self._authority.issue("apiserver")
        server = ApiServer(served, tls=tls, token=TOKEN)
        self._servers.append(server)
        (self.folder / "token").write_text(TOKEN)
        (self.folder / "ca.crt").write_text(tls.authority.read_text())
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
        return PodAccount(self.folder)

    def values(self, values: object) -> list[Path]:
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        return [file]

    def stop(self) -> None:
        for server in self._servers:
            server.close()


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    pod = Pod(tmp_path)
    yield pod
    pod.stop()


def chart_test() -> Json:
    pods = of_kind(rendered("production"), "Pod")
    return next(one for one in pods if one["metadata"]["name"] == "podium-test-apis")


async def test_it_finds_what_the_doctor_finds(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    account = pod.starts(monkeypatch, everything())
    findings = await examine_cluster(pod.values(profile("production")), account)
    assert all(each.well for each in findings)
    assert len(findings) > 5


async def test_the_charts_own_annotation_is_the_values_it_reads(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = pod.starts(monkeypatch, {})
    values = yaml.safe_load(chart_test()["metadata"]["annotations"]["podium.dev/values"])
    missing = [each for each in await examine_cluster(pod.values(values), account) if not each.well]
    switches = profile("production")["integrations"]
    wanted = [integrations()[name] for name in switches if integrations()[name].apis]
    assert {each.what for each in missing} == {each.operator for each in wanted}
    for each in wanted:
        fix = next(one.fix for one in missing if one.what == each.operator)
        assert f"{each.minimum} or later: {each.install}" in fix


def test_outside_of_a_pod_it_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("{}")
    command = chart_test()["spec"]["containers"][0]["command"][1:3]
    run = subprocess.run(
        [sys.executable, *command, str(tmp_path / "values.yaml")],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "KUBERNETES_SERVICE_HOST" in run.stdout
    assert "mount its account" in run.stdout
    assert not run.stderr


async def test_a_token_the_server_does_not_know_is_reported(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = pod.starts(monkeypatch, everything())
    (pod.folder / "token").write_text("of another account")
    with pytest.raises(ClusterUnreachable, match="401"):
        await examine_cluster(pod.values({}), account)
