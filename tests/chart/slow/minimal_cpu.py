"""The minimal-cpu profile's Deployments, played by podman from images built here, run an episode.

`make chart-slow` runs it, as root: PostgreSQL, Temporal, Kafka and the model's server are real
and run beside the containers.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import httpx
import pytest
import pytest_asyncio
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from chart.rendering import ROOT, Json, merged, of_kind, profile, render
from chart.slow.neighbours import Neighbours, neighbours
from chart.slow.node import Node, container_of, play, podman
from e2e.episodes_over_http import finished, start, trajectory
from podium_kit.crypto.certificate_authority import Authority
from podium_operations.bootstrap.settings import Certificates
from podium_operations.local.keys import ensure_keys

pytestmark = [pytest.mark.timeout(900)]

HEALTH_PORT, METRICS_PORT, HTTP_PORT = 8086, 9090, 8080
SERVING = health_pb2.HealthCheckResponse.SERVING
READY_TIMEOUT_S = 180
UID = "65532"
SUM = {"thought": "I will compute it.", "tool": "calculator", "arguments": {"expression": "6*7"}}


@dataclass(frozen=True)
class Cluster:
    objects: list[Json]
    node: Node

    @property
    def deployments(self) -> list[Json]:
        return of_kind(self.objects, "Deployment")

    def helm_test(self, name: str) -> str:
        pods = of_kind(self.objects, "Pod")
        pod = next(one for one in pods if one["metadata"]["name"] == name)
        (container,) = pod["spec"]["containers"]
        command = [*container["command"], *container.get("args", [])]
        return podman("exec", "podium-gateway-gateway", *command, check=False)

    async def until_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        for deployment in self.deployments:
            address = self.node.addresses[deployment["metadata"]["name"]]
            (container,) = deployment["spec"]["template"]["spec"]["containers"]
            while not await is_ready(address, container):
                name = container_of(deployment)
                assert time.monotonic() < deadline, (name, podman("logs", "--tail", "20", name))
                await asyncio.sleep(1)

    def gateway(self, key: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"http://{self.node.addresses['podium-gateway']}:{HTTP_PORT}",
            headers={"authorization": f"Bearer {key}"},
            timeout=60,
            trust_env=False,
        )

    def key(self, role: str) -> str:
        """A new API key, made as the documentation says: in the gateway's container."""
        command = ("python", "-m", "gateway", "keys", "create")
        who = ("--tenant", "acme", "--subject", "ada", "--role", role)
        return podman("exec", "podium-gateway-gateway", *command, *who).split()[-1]


@pytest_asyncio.fixture(scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    with TemporaryDirectory(prefix="podium-node-") as made:
        folder = Path(made)
        await asyncio.to_thread(folder.chmod, 0o755)  # for the pods' user to pass through
        async with neighbours(folder, [SUM, {"answer": "42"}]) as around:
            objects = render(values(around))
            deployments = of_kind(objects, "Deployment")
            names = [each["metadata"]["name"] for each in deployments]
            addresses = dict(zip(names, map("127.0.1.{}".format, count(1)), strict=False))
            made_for = secrets(around, folder / "identity") | certificates(objects)
            node = Node(folder / "volumes", made_for, addresses)
            node.folder.mkdir()
            try:
                play(node, deployments)
                cluster = Cluster(objects, node)
                await cluster.until_ready()
                yield cluster
            finally:
                podman("pod", "rm", "--force", "--ignore", "--time", "1", *names, check=False)


def values(around: Neighbours) -> Json:
    endpoints = {"temporal": {"target": around.temporal}, "kafka": {"bootstrap": around.kafka}}
    places = {
        "imageRegistry": "localhost",
        "endpoints": endpoints,
        "inference": {"mode": "external", "external": {"baseUrl": around.model.base_url}},
    }
    return merged(profile("minimal-cpu"), places)


def secrets(around: Neighbours, folder: Path) -> dict[str, dict[str, str]]:
    """The two Secrets the chart's README creates; `podium identity` makes the keys."""
    folder.mkdir()
    ensure_keys(folder)
    identity = {file.name: file.read_text() for file in folder.iterdir()}
    return {"podium-databases": around.database_urls, "podium-identity": identity}


def certificates(objects: list[Json]) -> dict[str, dict[str, str]]:
    """The Secrets of mutual TLS, as the Job makes them from the plan of the chart."""
    maps = (one["data"] for one in of_kind(objects, "ConfigMap"))
    plan = next(yaml.safe_load(data["plan.yaml"]) for data in maps if "plan.yaml" in data)
    wanted, authority = Certificates(**plan["certificates"]), Authority.new("podium-authority")
    made = {}
    for holder in wanted.holders:
        issued = authority.issue(holder.secret, holder.names, wanted.lasting)
        ca = authority.written().certificate
        made[holder.secret] = {
            "tls.crt": issued.certificate, "tls.key": issued.private_key, "ca.crt": ca,
        }  # fmt: skip
    return made


async def is_ready(address: str, container: Json) -> bool:
    probe = container["readinessProbe"]
    if "grpc" in probe:
        async with grpc.aio.insecure_channel(f"{address}:{HEALTH_PORT}") as channel:
            request = health_pb2.HealthCheckRequest(service=probe["grpc"]["service"])
            try:
                reply = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=5)
            except grpc.aio.AioRpcError:
                return False
        return bool(reply.status == SERVING)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    url = f"http://{address}:{ports[probe['httpGet']['port']]}{probe['httpGet']['path']}"
    async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
        try:
            return (await client.get(url)).is_success
        except httpx.TransportError:
            return False


async def test_the_charts_own_test_finds_every_service_ready(cluster: Cluster) -> None:
    lines = cluster.helm_test("podium-test-readiness").splitlines()
    assert len(lines) == len(cluster.deployments) - 1, lines  # the worker serves no port
    assert all(line.endswith(" is ready") for line in lines), lines


async def test_the_chart_asks_for_apis_with_what_is_in_the_image(cluster: Cluster) -> None:
    # There is no API server here, and not the file of the pod's annotation; the program is.
    assert "/etc/podium/values.yaml is no values file" in cluster.helm_test("podium-test-apis")


async def test_every_process_is_an_ordinary_user_without_capabilities_on_a_read_only_root(
    cluster: Cluster,
) -> None:
    for deployment in cluster.deployments:
        name = container_of(deployment)
        status = yaml.safe_load(podman("exec", name, "cat", "/proc/1/status").replace("\t", " "))
        assert set(str(status["Uid"]).split()) == {UID}, name
        assert set(str(status["Gid"]).split()) == {UID}, name
        for which in ("CapEff", "CapPrm", "CapBnd", "CapAmb"):
            assert int(str(status[which]), 16) == 0, f"{name} {which}"
        assert status["NoNewPrivs"] == 1, name
        written = podman("exec", name, "touch", "/opt/podium/written", check=False)
        assert "Read-only file system" in written, f"{name}: {written}"


async def test_an_episode_with_a_tool_completes_through_the_gateway(cluster: Cluster) -> None:
    prices = yaml.safe_load((ROOT / "bundled/prices.yaml").read_text())
    tool = yaml.safe_load((ROOT / "bundled/tools/calculator.yaml").read_text())
    async with cluster.gateway(cluster.key("platform-admin")) as admin:
        for path, body in (("/v1/prices", prices), ("/v1/tools", {"spec": tool})):
            reply = await admin.post(path, json=body)
            assert reply.is_success, reply.text
    async with cluster.gateway(cluster.key("tenant-admin")) as client:
        episode = await finished(client, await start(client))
        found = await trajectory(client, episode["id"])
    assert episode["answer"] == "42"
    (call,) = [call for turn in found["turns"] for call in turn.get("tool_invocations", [])]
    assert "42" in call["observation"]["content"]


async def test_every_container_ends_by_itself_when_asked_and_starts_again(cluster: Cluster) -> None:
    for deployment in reversed(cluster.deployments):
        name, spec = container_of(deployment), deployment["spec"]["template"]["spec"]
        grace_s = spec["terminationGracePeriodSeconds"]
        started = time.monotonic()
        podman("stop", "--time", str(grace_s), name)
        assert time.monotonic() - started < grace_s, name
        # 137 would be the kill that follows the grace period.
        state = json.loads(podman("inspect", "--format", "{{json .State}}", name))
        assert state["ExitCode"] == 0, (name, podman("logs", "--tail", "20", name))
    for deployment in cluster.deployments:
        podman("start", container_of(deployment))
    await cluster.until_ready()
