"""A bad reply of the cluster's sandbox service is a typed failure of the code tool, or none of it.

A pod that is gone, or whose report is cut off, has answered nothing: the call is made again.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from embedded_servers import Database
from integration.misbehaviour.charged_calls import limits_for
from integration.misbehaviour.faults import Fault
from integration.misbehaviour.grpc_server import misbehaving_grpc
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.tool_specs import ANY_OBJECT, tool_spec
from podium.adapters.v1 import sandbox_service_pb2 as pb
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2

# A failure of no kind.
WRONG = pb.RunCodeResponse(failure=failure_pb2.Failure(message="no kind")).SerializeToString()
EXPECTED = {
    # The service is ours: where it breaks our contract, the fault is ours.
    Fault.WRONG_SCHEMA: "INTERNAL",
    Fault.BINARY: "INTERNAL",
    Fault.HANG: "TIMEOUT",
}
NO_ANSWER = {
    Fault.HUNDRED_MEGABYTES: grpc.StatusCode.INTERNAL,
    Fault.HALF: grpc.StatusCode.UNAVAILABLE,
    Fault.RESET: grpc.StatusCode.UNAVAILABLE,
}
CANNOT = {
    Fault.NOT_JSON: "what code prints is bytes in a Protobuf message",
    Fault.PACKED: "gRPC unpacks as for any gRPC tool",
}


def test_all_faults_are_there() -> None:
    assert EXPECTED.keys() | NO_ANSWER.keys() | CANNOT.keys() == set(Fault)


@pytest.mark.parametrize("fault", EXPECTED)
async def test_a_bad_answer_is_a_typed_failure_and_a_call(
    database: Database, tmp_path: Path, fault: Fault
) -> None:
    async with code_tool(await database("tool_adapters"), tmp_path, fault) as (adapters, tool):
        answer = await adapters.call(tool, {"code": "6 * 7"})
    kind = failure_pb2.FailureKind.Name(answer.failure.kind)
    assert kind == f"FAILURE_KIND_{EXPECTED[fault]}", answer
    assert answer.failure.message
    assert answer.attempts == 1
    assert answer.HasField("usage")


@pytest.mark.parametrize("fault", NO_ANSWER)
async def test_what_is_no_answer_has_the_caller_make_the_call_again(
    database: Database, tmp_path: Path, fault: Fault
) -> None:
    async with code_tool(await database("tool_adapters"), tmp_path, fault) as (adapters, tool):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await adapters.call(tool, {"code": "6 * 7"})
    assert error.value.code() is NO_ANSWER[fault]


@asynccontextmanager
async def code_tool(
    url: str, folder: Path, fault: Fault
) -> AsyncIterator[tuple[AdaptersUnderTest, str]]:
    spec = tool_spec(
        "python",
        "CODE",
        ANY_OBJECT,
        connection=tool_pb2.Connection(code=tool_pb2.CodeConnection()),
        limits=limits_for(EXPECTED.get(fault, "")),
    )
    async with (
        misbehaving_grpc(fault, WRONG) as target,
        running_registry() as registry,
        run_adapters(url, folder, registry, sandbox_target=target) as adapters,
    ):
        yield adapters, adapters.register(spec)
