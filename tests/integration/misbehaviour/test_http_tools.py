import json

import pytest

from integration.misbehaviour.charged_calls import CALL_PRICE, ChargedCalls, limits_for
from integration.misbehaviour.faults import DEGREES, Fault
from integration.misbehaviour.http_server import MisbehavingServer
from integration.misbehaviour.memory import bounded_memory
from integration.tool_adapters.tool_specs import http_spec
from podium.common.v1 import failure_pb2

EXPECTED = {
    Fault.NOT_JSON: "MALFORMED_OUTPUT",
    Fault.WRONG_SCHEMA: "MALFORMED_OUTPUT",
    Fault.HUNDRED_MEGABYTES: "OUTPUT_TOO_LARGE",
    Fault.PACKED: "OUTPUT_TOO_LARGE",
    Fault.BINARY: "MALFORMED_OUTPUT",
    Fault.HALF: "UNAVAILABLE",
    Fault.RESET: "UNAVAILABLE",
    Fault.HANG: "TIMEOUT",
}


def test_all_faults_are_there() -> None:
    assert set(EXPECTED) == set(Fault)


@pytest.mark.parametrize("fault", EXPECTED)
async def test_a_bad_answer_is_a_typed_failure_and_a_paid_call(
    calls: ChargedCalls, fault: Fault
) -> None:
    wrong = json.dumps({"degrees": "warm"}).encode()
    async with MisbehavingServer(fault, wrong) as server:
        spec = http_spec(server.url, limits=limits_for(EXPECTED[fault]), result_json_schema=DEGREES)
        with bounded_memory():
            call = await calls.made(spec, fault)
    call.assert_failed(EXPECTED[fault])
    assert call.cost == CALL_PRICE


async def test_json_too_deep_to_read_is_not_parsed(calls: ChargedCalls) -> None:
    async with MisbehavingServer(Fault.WRONG_SCHEMA, b"[" * 50_000) as server:
        spec = http_spec(server.url)
        spec.name = "deep"
        call = await calls.made(spec, Fault.WRONG_SCHEMA)
    call.assert_failed("OUTPUT_TOO_LARGE")


async def test_arguments_with_half_a_character_are_rejected(calls: ChargedCalls) -> None:
    async with MisbehavingServer(None) as server:
        spec = http_spec(server.url)
        spec.name = "surrogate"
        call = await calls.made(spec, Fault.RESET, r'{"q": "\ud83d"}')
    assert call.answer.failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
    assert call.answer.attempts == 0
    assert call.cost == 0
