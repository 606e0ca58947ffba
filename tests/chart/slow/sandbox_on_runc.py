"""The sandbox's pod under runc: code is isolated with what the chart gives it, rejected without.

`make chart-slow` runs it, as root, from the image of the platform.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest

from chart.rendering import Json, merged, of_kind, profile, render
from chart.slow.node import Node, podman, run_restricted
from podium.adapters.v1 import sandbox_service_pb2 as pb
from podium.adapters.v1.sandbox_service_pb2_grpc import SandboxServiceStub
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.identity import Identity, Scope
from podium_kit.rpc.tokens import TokenSigner
from podium_operations.local.keys import ensure_keys

pytestmark = [pytest.mark.timeout(300)]

NAME, ADDRESS, PORT = "podium-sandbox", "127.0.1.99", 50057
START_TIMEOUT_S = 120.0
REJECTED = 3
WORKER = Identity("acme", "worker", frozenset({Scope.EPISODES_RUN}))
ON_RUNC = {"enabled": True, "seccompProfile": "podium-sandbox.json"}


@pytest.fixture
def node() -> Iterator[Node]:
    with TemporaryDirectory(prefix="podium-node-") as made:
        folder = Path(made)
        folder.chmod(0o755)  # for the pod's user to pass through
        keys = folder / "identity"
        keys.mkdir()
        ensure_keys(keys)
        identity = {file.name: file.read_text() for file in keys.iterdir()}
        (folder / "volumes").mkdir()
        yield Node(folder / "volumes", {"podium-identity": identity}, {NAME: ADDRESS})
        podman("rm", "--force", "--ignore", "--time", "1", NAME)


def sandbox(**own: Json) -> Json:
    values = {"imageRegistry": "localhost", "components": {"sandbox": {"enabled": True, **own}}}
    deployments = of_kind(render(merged(profile("minimal-cpu"), values)), "Deployment")
    return next(one for one in deployments if one["metadata"]["name"] == NAME)


def state() -> Json:
    found: Json = json.loads(podman("inspect", "--format", "{{json .State}}", NAME))
    return found


def rejection() -> str:
    deadline = time.monotonic() + START_TIMEOUT_S
    while state()["Status"] != "exited":
        assert time.monotonic() < deadline, podman("logs", NAME)
        time.sleep(0.5)
    assert state()["ExitCode"] == REJECTED
    return podman("logs", NAME)


async def run_code(node: Node, code: str) -> pb.RunCodeResponse:
    signer = TokenSigner(node.secrets["podium-identity"]["episode-worker.pem"], "episode-worker")
    request = pb.RunCodeRequest(code=code, memory_bytes=2**30, output_bytes=2**16)
    request.wall_time.FromSeconds(20)
    deadline = time.monotonic() + START_TIMEOUT_S
    async with open_channel(f"{ADDRESS}:{PORT}", signer, WORKER) as channel:
        while True:
            try:
                return await SandboxServiceStub(channel).RunCode(request, timeout=60)
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE, error.details()
                assert time.monotonic() < deadline, podman("logs", NAME)
                await asyncio.sleep(0.5)


async def test_code_runs_isolated_and_the_pod_ends_when_asked(node: Node) -> None:
    deployment = sandbox(userNamespaces=ON_RUNC)
    run_restricted(node, deployment)
    ran = await run_code(node, "import os\nprint(6 * 7, os.path.exists('/etc/podium'))")
    assert ran.stdout == "42 False\n"
    assert not ran.HasField("failure")
    lost = await run_code(node, "import socket\nsocket.create_connection(('127.0.0.1', 1))")
    assert "PermissionError" in lost.stderr
    grace_s = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    podman("stop", "--time", str(grace_s), NAME)
    assert state()["ExitCode"] == 0, podman("logs", "--tail", "20", NAME)


def test_under_the_default_profile_it_is_not_ready_and_names_the_fix(node: Node) -> None:
    run_restricted(node, sandbox())
    assert "a seccomp profile that permits unshare, or gVisor" in rejection()


def test_with_a_masked_proc_it_is_not_ready(node: Node) -> None:
    # What is rendered once is shared by all tests.
    deployment = deepcopy(sandbox(userNamespaces=ON_RUNC))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    del container["securityContext"]["procMount"]
    run_restricted(node, deployment)
    assert "proc" in rejection()
