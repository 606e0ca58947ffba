import pytest

from integration.misbehaviour.charged_calls import CALL_PRICE, ChargedCalls, limits_for
from integration.misbehaviour.faults import DEGREES, Fault
from integration.misbehaviour.grpc_server import METHOD, descriptor_set, misbehaving_grpc
from integration.tool_adapters.tool_specs import ANY_OBJECT, tool_spec
from podium.registry.v1 import tool_pb2

EXPECTED = {
    Fault.WRONG_SCHEMA: "MALFORMED_OUTPUT",
    Fault.HUNDRED_MEGABYTES: "OUTPUT_TOO_LARGE",
    Fault.PACKED: "MALFORMED_OUTPUT",
    Fault.BINARY: "MALFORMED_OUTPUT",
    Fault.HALF: "UNAVAILABLE",
    Fault.RESET: "UNAVAILABLE",
    Fault.HANG: "TIMEOUT",
}
# gRPC sends a call only once the server has greeted it, which these never do.
NEVER_SENT = {Fault.HALF, Fault.RESET}
CANNOT = {Fault.NOT_JSON: "answers are Protobuf, and JSON is made of them here"}


def test_all_faults_are_there() -> None:
    assert EXPECTED.keys() | CANNOT.keys() == set(Fault)


@pytest.mark.parametrize("fault", EXPECTED)
async def test_a_bad_answer_is_a_typed_failure_and_a_paid_call(
    calls: ChargedCalls, fault: Fault
) -> None:
    async with misbehaving_grpc(fault) as target:
        grpc = tool_pb2.GrpcConnection(
            target=target, method=METHOD, descriptor_set=descriptor_set(), plaintext=True
        )
        spec = tool_spec(
            "weather-grpc",
            "GRPC",
            ANY_OBJECT,
            connection=tool_pb2.Connection(grpc=grpc),
            limits=limits_for(EXPECTED[fault]),
            result_json_schema=DEGREES,
        )
        call = await calls.made(spec, fault)
    call.assert_failed(EXPECTED[fault])
    assert ("compressed" in call.answer.failure.message) == (fault is Fault.PACKED)
    assert call.answer.unsent == (fault in NEVER_SENT)
    assert call.cost == (0 if fault in NEVER_SENT else CALL_PRICE)
