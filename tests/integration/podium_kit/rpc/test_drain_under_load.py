import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from callers import make_identity, write_verify_keys
from integration.podium_kit.rpc.policies_under_test import PoliciesUnderTest
from podium.registry.v1 import policy_service_pb2 as pb
from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceStub
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.rpc.channel import open_channel

pytestmark = pytest.mark.chaos

PROGRAM = "integration.podium_kit.rpc.draining_program"
CALLERS, REPLICAS = 16, 3


async def started(server: PoliciesUnderTest, port: int) -> ManagedProcess:
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PORT": str(port),
        "VERIFY_KEYS_FILE": str(write_verify_keys(server.folder / "keys.json", [server.keys])),
        "DRAIN_WAIT_S": "0.2",
        "DRAIN_GRACE_S": "30",
    }
    argv = [sys.executable, "-m", PROGRAM]
    process = ManagedProcess("policies", argv, log_path=server.folder / f"{port}.log", env=env)
    process.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        request = health_pb2.HealthCheckRequest()
        await health_pb2_grpc.HealthStub(channel).Check(request, wait_for_ready=True)
    return process


class Load:
    """Callers that ask again and again over one round_robin channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._policies = PolicyServiceStub(channel)
        self.answered = 0
        self.lost: Counter[str] = Counter()
        self._over = False

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as callers:
            for _ in range(CALLERS):
                callers.create_task(self._call())
            yield
            self._over = True

    async def more(self, count: int) -> None:
        wanted = self.answered + count
        while self.answered < wanted:
            await asyncio.sleep(0.01)

    async def _call(self) -> None:
        while not self._over:
            try:
                await self._policies.GetPolicy(pb.GetPolicyRequest(name="quick"))
                self.answered += 1
            except grpc.aio.AioRpcError as error:
                self.lost[f"{error.code().name}: {error.details()}"] += 1


async def test_replicas_that_end_one_after_the_other_lose_no_call(
    server: PoliciesUnderTest,
) -> None:
    ports = [free_port() for _ in range(REPLICAS)]
    target = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
    async with AsyncExitStack() as stack:
        replicas = await asyncio.gather(*(started(server, port) for port in ports))
        for replica in replicas:
            stack.push_async_callback(replica.kill)
        channel = open_channel(target, server.keys.signer(), make_identity())
        load = Load(await stack.enter_async_context(channel))
        async with load.going_on():
            await load.more(200)
            for position, port in enumerate(ports):
                ending = replicas[position]
                assert ending.pid
                os.kill(ending.pid, signal.SIGTERM)
                while ending.running:
                    await asyncio.sleep(0.01)
                assert ending.returncode == 0
                await load.more(100)
                replicas[position] = await started(server, port)
                stack.push_async_callback(replicas[position].kill)
                await load.more(100)
    assert not load.lost
