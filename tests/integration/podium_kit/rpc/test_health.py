import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from integration.podium_kit.rpc.policies_under_test import (
    POLICY_SERVICE,
    PoliciesUnderTest,
    policy_named,
)
from podium.registry.v1 import policy_service_pb2 as pb
from podium_kit.embedded.ports import free_port

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def answer(request: pb.GetPolicyRequest) -> pb.GetPolicyResponse:
    return policy_named(request.name)


class Database:
    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def check(self) -> None:
        await self.answers.wait()
        if self.trouble:
            raise self.trouble


async def watch(channel: grpc.aio.Channel, service: str) -> AsyncIterator[int]:
    """The states a service is in, each once; what is not known yet is left out."""
    request = health_pb2.HealthCheckRequest(service=service)
    async for update in HealthStub(channel).Watch(request):
        if update.status in (SERVING, NOT_SERVING):
            yield update.status


@pytest.mark.parametrize("service", ["", "readiness", POLICY_SERVICE])
async def test_service_is_not_serving_while_a_check_fails(
    server: PoliciesUnderTest, service: str
) -> None:
    database = Database()
    checks = {"database": database.check}
    async with server.serving(answer, checks), server.plain_channel() as channel:
        states = watch(channel, service)
        assert await anext(states) == SERVING
        database.trouble = ConnectionError("gone")
        assert await anext(states) == NOT_SERVING
        database.trouble = None
        assert await anext(states) == SERVING


async def test_check_that_hangs_counts_as_failed(server: PoliciesUnderTest) -> None:
    database = Database()
    database.answers.clear()
    checks = {"database": database.check}
    async with server.serving(answer, checks), server.plain_channel() as channel:
        assert await anext(watch(channel, "readiness")) == NOT_SERVING


async def test_lost_dependency_does_not_restart_the_process(server: PoliciesUnderTest) -> None:
    database = Database()
    database.trouble = ConnectionError("gone")
    checks = {"database": database.check}
    async with server.serving(answer, checks), server.plain_channel() as channel:
        assert await anext(watch(channel, "readiness")) == NOT_SERVING
        assert await anext(watch(channel, "liveness")) == SERVING


async def test_probes_have_a_port_of_their_own(server: PoliciesUnderTest) -> None:
    health_port = free_port()
    async with (
        server.serving(answer, health_port=health_port),
        grpc.aio.insecure_channel(f"127.0.0.1:{health_port}") as channel,
    ):
        assert await anext(watch(channel, "readiness")) == SERVING


async def test_two_servers_never_share_a_probe_port(server: PoliciesUnderTest) -> None:
    health_port = free_port()
    other = PoliciesUnderTest(server.folder)
    async with server.serving(answer, health_port=health_port):
        with pytest.raises(RuntimeError, match="bind"):
            async with other.serving(answer, health_port=health_port):
                pass


async def test_a_stopping_server_first_reports_that_it_does_not_serve(
    server: PoliciesUnderTest,
) -> None:
    channel: grpc.aio.Channel
    async with server.serving(answer, drain_wait_s=0.5):
        channel = server.plain_channel()
        states = watch(channel, "readiness")
        assert await anext(states) == SERVING
    assert await anext(states) == NOT_SERVING
    await channel.close(None)
