import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.tool_specs import ANY_OBJECT, tool_spec
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2

CHECK = "/grpc.health.v1.Health/Check"


class Kitchen(HealthServicer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.asked, self.known = asyncio.Event(), asyncio.Event()

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> health_pb2.HealthCheckResponse:
        if request.service == "cellar":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "restarting")
        if request.service == "oven":
            self.asked.set()
            await self.known.wait()
        return await super().Check(request, context)


@pytest_asyncio.fixture
async def kitchen() -> Kitchen:
    servicer = Kitchen()
    for service in ("kitchen", "oven"):
        await servicer.set(service, health_pb2.HealthCheckResponse.NOT_SERVING)
    return servicer


@pytest_asyncio.fixture
async def health_port(kitchen: Kitchen) -> AsyncIterator[int]:
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(kitchen, server)
    reflection.enable_server_reflection(["grpc.health.v1.Health"], server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield port
    await server.stop(0)


def grpc_spec(port: int, method: str = CHECK, **fields: Any) -> tool_pb2.ToolSpec:
    connection = tool_pb2.GrpcConnection(
        target=f"127.0.0.1:{port}", method=method, plaintext=True, **fields
    )
    return tool_spec("health", "GRPC", ANY_OBJECT, connection=tool_pb2.Connection(grpc=connection))


async def test_a_method_is_called_with_json_after_asking_the_server_for_its_types(
    adapters: AdaptersUnderTest, health_port: int
) -> None:
    name = adapters.register(grpc_spec(health_port))
    answer = await adapters.call(name, {"service": "kitchen"})
    assert json.loads(answer.output.content_json) == {"status": "NOT_SERVING"}


async def test_a_descriptor_set_replaces_reflection(
    adapters: AdaptersUnderTest, health_port: int
) -> None:
    file = descriptor_pb2.FileDescriptorProto()
    health_pb2.DESCRIPTOR.CopyToProto(file)
    described = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    name = adapters.register(grpc_spec(health_port, descriptor_set=described))
    answer = await adapters.call(name, {"service": "kitchen"})
    assert json.loads(answer.output.content) == {"status": "NOT_SERVING"}


async def test_a_field_the_message_lacks_is_the_callers_mistake(
    adapters: AdaptersUnderTest, health_port: int
) -> None:
    answer = await adapters.call(adapters.register(grpc_spec(health_port)), {"kitchen": True})
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
    assert "kitchen" in answer.failure.message


@pytest.mark.parametrize(
    ("method", "arguments", "kind"),
    [
        (CHECK, {"service": "nowhere"}, failure_pb2.FAILURE_KIND_NOT_FOUND),
        ("/grpc.health.v1.Health/Cook", {}, failure_pb2.FAILURE_KIND_NOT_FOUND),
        ("/kitchen.v1.Kitchen/Cook", {}, failure_pb2.FAILURE_KIND_NOT_FOUND),
        ("/grpc.health.v1.Health/Watch", {}, failure_pb2.FAILURE_KIND_NOT_FOUND),
    ],
)
async def test_a_call_the_server_cannot_answer_names_what_is_missing(
    adapters: AdaptersUnderTest,
    health_port: int,
    method: str,
    arguments: dict[str, Any],
    kind: failure_pb2.FailureKind.ValueType,
) -> None:
    answer = await adapters.call(adapters.register(grpc_spec(health_port, method)), arguments)
    assert answer.failure.kind == kind


async def test_a_call_that_finds_the_server_away_leaves_others_alone(
    adapters: AdaptersUnderTest, health_port: int, kitchen: Kitchen
) -> None:
    name = adapters.register(grpc_spec(health_port))
    other = asyncio.create_task(adapters.call(name, {"service": "oven"}))
    await kitchen.asked.wait()
    away = await adapters.call(name, {"service": "cellar"})
    kitchen.known.set()
    assert away.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert json.loads((await other).output.content) == {"status": "NOT_SERVING"}
