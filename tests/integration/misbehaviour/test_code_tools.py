import json

import pytest

from integration.misbehaviour.charged_calls import CALL_PRICE, ChargedCalls, limits_for
from integration.misbehaviour.faults import DEGREES, Fault
from integration.misbehaviour.memory import bounded_memory
from integration.tool_adapters.tool_specs import ANY_OBJECT, tool_spec
from podium.registry.v1 import tool_pb2

EXPECTED = {
    Fault.NOT_JSON: ("print('<html>I am a teapot')", "MALFORMED_OUTPUT"),
    Fault.WRONG_SCHEMA: ("""print('{"degrees": "warm"}')""", "MALFORMED_OUTPUT"),
    Fault.HUNDRED_MEGABYTES: (
        "for _ in range(100): print('x' * (1 << 20))",
        "OUTPUT_TOO_LARGE",
    ),
    Fault.BINARY: (
        "import os, sys; _ = sys.stdout.buffer.write(os.urandom(1024))",
        "MALFORMED_OUTPUT",
    ),
    Fault.HALF: (
        """import os; print('{"degrees": ', flush=True); os._exit(1)""",
        "TOOL_ERROR",
    ),
    # There is no connection to the code, but its process can be gone just as suddenly.
    Fault.RESET: ("import os; os.kill(os.getpid(), 9)", "LIMIT_EXCEEDED"),
    Fault.HANG: ("import time; time.sleep(600)", "TIMEOUT"),
}

CANNOT = {Fault.PACKED: "what code prints is read as it is"}


def test_all_faults_are_there() -> None:
    assert EXPECTED.keys() | CANNOT.keys() == set(Fault)


@pytest.mark.parametrize("fault", EXPECTED)
async def test_a_bad_answer_is_a_typed_failure_charged_by_time(
    calls: ChargedCalls, fault: Fault
) -> None:
    code, failure = EXPECTED[fault]
    spec = tool_spec(
        "python",
        "CODE",
        ANY_OBJECT,
        connection=tool_pb2.Connection(code=tool_pb2.CodeConnection()),
        limits=limits_for(failure),
        result_json_schema=DEGREES,
    )
    with bounded_memory():
        call = await calls.made(spec, fault, json.dumps({"code": code}))
    call.assert_failed(failure)
    assert call.cost > CALL_PRICE
