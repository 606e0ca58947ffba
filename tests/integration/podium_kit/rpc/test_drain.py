import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from callers import write_verify_keys
from integration.podium_kit.rpc.policies_under_test import PoliciesUnderTest
from podium.registry.v1 import policy_service_pb2 as pb
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.rpc.errors import Unavailable
from podium_kit.rpc.status import domain_error_from

PROGRAM = "integration.podium_kit.rpc.draining_program"


@asynccontextmanager
async def program(server: PoliciesUnderTest, grace_s: float) -> AsyncIterator[ManagedProcess]:
    """The server in a process of its own, answering calls."""
    server.port = free_port()
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PORT": str(server.port),
        "VERIFY_KEYS_FILE": str(write_verify_keys(server.folder / "keys.json", [server.keys])),
        "DRAIN_GRACE_S": str(grace_s),
        "STARTED": str(server.folder / "started"),
        "RELEASE": str(server.folder / "release"),
    }
    argv = [sys.executable, "-m", PROGRAM]
    process = ManagedProcess("policies", argv, log_path=server.folder / "log", env=env)
    process.start()
    try:
        async with server.client() as policies:
            await policies.GetPolicy(pb.GetPolicyRequest(), wait_for_ready=True)
        yield process
    finally:
        await process.kill()


async def appears(path: Path) -> None:
    while not await asyncio.to_thread(path.exists):
        await asyncio.sleep(0.02)


async def rejects_calls(server: PoliciesUnderTest) -> None:
    while True:
        async with server.client() as newcomer:
            try:
                await newcomer.GetPolicy(pb.GetPolicyRequest(), timeout=5)
            except grpc.aio.AioRpcError as error:
                # CANCELLED when the call met the server just as it closed its door.
                assert isinstance(domain_error_from(error), Unavailable)
                return


async def ended(process: ManagedProcess) -> int | None:
    while process.running:
        await asyncio.sleep(0.02)
    return process.returncode


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
async def test_running_call_finishes_while_new_ones_are_rejected(
    server: PoliciesUnderTest, signal_number: signal.Signals
) -> None:
    async with program(server, grace_s=60) as process, server.client() as policies:
        slow = asyncio.ensure_future(policies.GetPolicy(pb.GetPolicyRequest(name="slow")))
        await appears(server.folder / "started")
        assert process.pid
        os.kill(process.pid, signal_number)
        await rejects_calls(server)
        assert not slow.done()
        (server.folder / "release").touch()
        assert (await slow).policy.spec.name == "slow"
        assert await ended(process) == 0


async def test_call_that_outlasts_the_grace_does_not_hold_the_process(
    server: PoliciesUnderTest,
) -> None:
    async with program(server, grace_s=0.2) as process, server.client() as policies:
        slow = asyncio.ensure_future(policies.GetPolicy(pb.GetPolicyRequest(name="slow")))
        await appears(server.folder / "started")
        assert process.pid
        os.kill(process.pid, signal.SIGTERM)
        with pytest.raises(grpc.aio.AioRpcError):
            await slow
        assert await ended(process) == 0
