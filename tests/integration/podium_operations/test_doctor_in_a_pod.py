import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from certificates import Authority
from chart.rendering import Json, of_kind, profile, rendered
from integration.podium_operations.api_server import ApiServer, everything
from podium_operations.cluster.api_server import ClusterUnreachable, PodAccount
from podium_operations.cluster.examination import examine_cluster
from podium_operations.cluster.requirements import integrations

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
