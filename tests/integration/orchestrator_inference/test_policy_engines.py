import asyncio
import copy
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from builders.version_folders import write_version
from chart.rendering import Json, of_kind, rendered
from orchestrator_inference.policy_engines.blueprint import (
    ENGINE_OF,
    VERSION,
    EngineRules,
    engine_name,
)
from orchestrator_inference.policy_engines.keeper import EngineKeeper
from orchestrator_inference.policy_engines.kserve_api import (
    ClusterRejected,
    ClusterUnreachable,
    KServeEngines,
    not_ready,
)
from podium_kit.embedded.ports import free_port
from podium_kit.policy_versions import Alias, Aliases, Format, VersionStore
from podium_kit.rpc.background import BackgroundTask, background
from servers.kserve_server import KServeServer

SERVING = health_pb2.HealthCheckResponse.SERVING
CASES = {"InferenceService": "kserve", "LLMInferenceService": "llmInferenceService"}


def blueprint(kind: str) -> Json:
    return of_kind(rendered(CASES[kind]), kind)[0]


class Cluster:
    def __init__(self, folder: Path, kind: str = "InferenceService") -> None:
        self.blueprint = blueprint(kind)
        self.server = KServeServer(self.blueprint)
        self.kubeconfig = self.server.kubeconfig(folder)
        self.store = VersionStore(folder / "store")
        self.store.root.mkdir()
        self.aliases = Aliases(self.store.root)
        self.rules = EngineRules(kind, "podium-adapters", Path("/mnt/adapters"), "policy-engine")

    def weights(self, version: str) -> str:
        """The place of a version's weights, as its engine has it."""
        mounted = self.rules.kind == "InferenceService"
        return f"/mnt/adapters/{version}" if mounted else f"pvc://podium-adapters/{version}"

    def engines(self) -> KServeEngines:
        return KServeEngines("podium", self.blueprint["metadata"]["name"], self.rules)

    def keeper(self, retire_after_s: float = 0) -> EngineKeeper:
        return EngineKeeper(self.store, self.engines(), newest=1, retire_after_s=retire_after_s)

    def made(self) -> set[str]:
        return self.server.objects.keys() - {self.blueprint["metadata"]["name"]}


@pytest.fixture(params=CASES)
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, request.param)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    yield cluster
    cluster.server.close()


def merged(cluster: Cluster, number: int, run: str = "run") -> str:
    return write_version(cluster.store, f"policy-{run}-v{number}", Format.MERGED)


async def test_a_new_version_gets_an_engine_beside_the_base_models(cluster: Cluster) -> None:
    name = merged(cluster, 1)
    write_version(cluster.store, "policy-run-v2", Format.ADAPTER)
    await cluster.keeper().reconcile()
    assert cluster.made() == {name}
    engine = cluster.server.objects[name]
    base = cluster.blueprint["metadata"]
    owner = engine["metadata"]["ownerReferences"][0]
    assert (owner["name"], owner["uid"]) == (
        base["name"],
        cluster.server.objects[base["name"]]["metadata"]["uid"],
    )
    assert "meta.helm.sh/release-name" not in engine["metadata"]["annotations"]
    written = str(engine["spec"])
    assert cluster.weights(name) in written
    assert cluster.blueprint["spec"] == cluster.server.objects[base["name"]]["spec"]


async def test_blue_serves_until_green_is_promoted_and_stays_for_a_rollback(
    cluster: Cluster,
) -> None:
    keeper = cluster.keeper()
    first, second, third = (merged(cluster, number) for number in (1, 2, 3))
    cluster.aliases.move(Alias.PROMOTED, first)
    await keeper.reconcile()
    assert cluster.made() == {first, third}
    cluster.aliases.move(Alias.PROMOTED, third)
    await keeper.reconcile()
    assert cluster.made() == {first, third}
    cluster.aliases.back(Alias.PROMOTED, third)
    assert keeper.wanted() == [first, third]
    fourth = merged(cluster, 4)
    cluster.aliases.move(Alias.PROMOTED, third)
    cluster.aliases.move(Alias.PROMOTED, fourth)
    await keeper.reconcile()
    assert cluster.made() == {third, fourth}
    assert second not in cluster.made()


async def test_an_unwanted_engine_stays_while_episodes_may_be_pinned_to_it(
    cluster: Cluster,
) -> None:
    patient = cluster.keeper(retire_after_s=3600)
    old = merged(cluster, 1)
    await patient.reconcile()
    merged(cluster, 2)
    await patient.reconcile()
    assert old in cluster.made()
    await cluster.keeper(retire_after_s=0).reconcile()
    assert old not in cluster.made()


async def test_what_the_chart_changes_is_patched_into_every_engine_and_nothing_else(
    cluster: Cluster,
) -> None:
    name = merged(cluster, 1)
    keeper = cluster.keeper()
    await keeper.reconcile()
    cluster.server.requests.clear()
    await keeper.reconcile()
    assert {method for method, _ in cluster.server.requests} == {"GET"}
    base = cluster.server.objects[cluster.blueprint["metadata"]["name"]]
    changed = {**base, "spec": _with_grace(base["spec"], 77)}
    cluster.server.put(changed)
    await keeper.reconcile()
    assert ("PATCH", name) in cluster.server.requests
    engine = cluster.server.objects[name]
    assert _grace(engine["spec"]) == 77
    assert cluster.weights(name) in str(engine["spec"])


def _with_grace(spec: Json, seconds: int) -> Json:
    part = "predictor" if "predictor" in spec else "template"
    return {**spec, part: {**spec[part], "terminationGracePeriodSeconds": seconds}}


def _grace(spec: Json) -> int:
    part = "predictor" if "predictor" in spec else "template"
    return int(spec[part]["terminationGracePeriodSeconds"])


async def test_a_long_name_is_shortened_for_the_object_and_whole_for_the_model(
    cluster: Cluster,
) -> None:
    name = merged(cluster, 1, run="a" * 46)
    keeper = cluster.keeper()
    await keeper.reconcile()
    await keeper.reconcile()
    assert cluster.made() == {engine_name(name)}
    assert len(engine_name(name)) <= 53 < len(name)
    assert name in str(cluster.server.objects[engine_name(name)]["spec"])


async def test_a_rejection_is_said_once_and_the_other_versions_go_on(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = cluster.keeper()
    first = merged(cluster, 1)
    cluster.server.rejected = 403
    await keeper.reconcile()
    await keeper.reconcile()
    said = [each.message for each in caplog.records if "rejects with 403" in each.message]
    assert len(said) == 1
    assert "denied the request" in said[0]
    cluster.server.rejected = 0
    await keeper.reconcile()
    assert cluster.made() == {first}


async def test_kserves_reason_is_said_until_the_engine_is_ready(cluster: Cluster) -> None:
    name = merged(cluster, 1)
    engines = cluster.engines()
    await cluster.keeper().reconcile()
    assert not_ready((await engines.versions())[name]) == "KServe gives no reason"
    cluster.server.says(name, "False", "FailedScheduling")
    assert not_ready((await engines.versions())[name]) == "Ready: FailedScheduling"
    cluster.server.says(name, "True")
    assert not_ready((await engines.versions())[name]) == ""


async def test_a_change_of_an_engine_is_looked_at_when_it_happens(cluster: Cluster) -> None:
    name = merged(cluster, 1)
    await cluster.keeper().reconcile()
    engines = cluster.engines()
    await engines.versions()
    waiting = asyncio.create_task(engines.changed(120))
    await asyncio.sleep(0)
    assert not waiting.done()
    cluster.server.says(name, "True")
    started = time.monotonic()
    await waiting
    # The watch would have lasted two minutes; this only says that it did not.
    assert time.monotonic() - started < 100


async def test_without_the_api_server_the_keeper_logs_it_and_continues(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    merged(cluster, 1)
    engines = cluster.engines()
    keeper = EngineKeeper(cluster.store, engines, newest=1, retire_after_s=0)
    cluster.server.close()
    with pytest.raises(ClusterUnreachable, match=r"endpoints\.kubernetes"):
        await engines.check()
    task = BackgroundTask("engines", partial(keeper.keep, 1), interval_s=0)
    async with background([task]):
        while not task.failures:
            await asyncio.sleep(0.05)
    assert "background task engines failed" in caplog.text


async def test_a_blueprint_that_is_missing_is_named(cluster: Cluster) -> None:
    engines = KServeEngines("podium", "elsewhere", cluster.rules)
    with pytest.raises(ClusterRejected, match="rejects with 404"):
        await engines.check()


async def test_engines_of_another_release_are_left_alone(cluster: Cluster) -> None:
    name = merged(cluster, 1)
    await cluster.keeper().reconcile()
    theirs = copy.deepcopy(cluster.server.objects[name])
    theirs["metadata"]["name"] = theirs["metadata"]["annotations"][VERSION] = "policy-theirs-v1"
    theirs["metadata"]["labels"][ENGINE_OF] = "another-release-orchestrator"
    cluster.server.put(theirs)
    await cluster.keeper().reconcile()
    assert cluster.made() == {name, "policy-theirs-v1"}


async def test_removing_a_missing_engine_is_no_error(cluster: Cluster) -> None:
    await cluster.engines().remove("policy-run-v9")
    assert cluster.server.requests[-1] == ("DELETE", "policy-run-v9")


async def test_the_process_makes_engines_answers_probes_and_ends_when_asked(
    cluster: Cluster,
) -> None:
    name, health = merged(cluster, 1), free_port()
    settings = {
        "POLICY_STORE": str(cluster.store.root),
        "NAMESPACE": "podium",
        "KIND": cluster.rules.kind,
        "BLUEPRINT": cluster.blueprint["metadata"]["name"],
        "CLAIM": cluster.rules.claim,
        "HEALTH_PORT": str(health),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator_inference.policy_engines"),
        env={
            "PYTHONPATH": ":".join(sys.path),
            "KUBECONFIG": str(cluster.kubeconfig),
            **{f"POLICY_ENGINES_{key}": value for key, value in settings.items()},
        },
    )
    while name not in cluster.made():
        assert process.returncode is None
        await asyncio.sleep(0.05)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{health}") as channel:
        probe = health_pb2.HealthCheckRequest(service="readiness")
        stub = health_pb2_grpc.HealthStub(channel)
        # Not ready until the first check; the test's own timeout ends this.
        while (await stub.Check(probe, wait_for_ready=True)).status != SERVING:
            await asyncio.sleep(0.05)
    process.terminate()
    assert await process.wait() == 0
