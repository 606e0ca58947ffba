import json

import pytest

from integration.misbehaviour.charged_calls import CALL_PRICE, ChargedCalls, limits_for
from integration.misbehaviour.faults import DEGREES, Fault
from integration.tool_adapters.tool_specs import ANY_OBJECT, tool_spec
from podium.registry.v1 import tool_pb2

EXPECTED = {
    Fault.WRONG_SCHEMA: ("SELECT 1", "MALFORMED_OUTPUT"),
    Fault.HUNDRED_MEGABYTES: ("SELECT repeat('x', 9999) FROM range(10000)", "OUTPUT_TOO_LARGE"),
    Fault.HANG: ("SELECT count(*) FROM range(1000000000) a, range(1000000) b", "TIMEOUT"),
}
CANNOT = {
    Fault.PACKED: "a function returns values as they are",
    Fault.NOT_JSON: "a function returns values, and JSON is made of them here",
    Fault.BINARY: "bytes are no value a function may return",
    Fault.HALF: "a function returns once, in this process: there is no stream",
    Fault.RESET: "nor a connection",
}


def test_all_faults_are_there() -> None:
    assert EXPECTED.keys() | CANNOT.keys() == set(Fault)


@pytest.mark.parametrize("fault", EXPECTED)
async def test_a_bad_answer_is_a_typed_failure_and_a_paid_call(
    calls: ChargedCalls, fault: Fault
) -> None:
    sql, failure = EXPECTED[fault]
    function = tool_pb2.FunctionConnection(function="query_database")
    spec = tool_spec(
        "database",
        "FUNCTION",
        ANY_OBJECT,
        connection=tool_pb2.Connection(function=function),
        limits=limits_for(failure),
        result_json_schema=DEGREES,
    )
    call = await calls.made(spec, fault, json.dumps({"sql": sql}))
    call.assert_failed(failure)
    assert call.cost == CALL_PRICE
