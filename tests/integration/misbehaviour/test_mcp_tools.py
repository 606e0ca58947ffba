import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from integration.misbehaviour import mcp_program
from integration.misbehaviour.charged_calls import CALL_PRICE, ChargedCalls, limits_for
from integration.misbehaviour.faults import Fault
from integration.misbehaviour.http_server import MisbehavingServer, as_json, mcp_greeting
from integration.misbehaviour.memory import bounded_memory
from integration.tool_adapters.tool_specs import (
    define_server,
    mcp_http_spec,
    mcp_spec,
)
from integration.tools_platform.running_platform import ToolsPlatform
from podium.registry.v1 import tool_pb2

EXPECTED = {
    "stdio": {
        # A line that is no message is ignored by the client, which keeps waiting.
        Fault.NOT_JSON: "TIMEOUT",
        Fault.WRONG_SCHEMA: "MALFORMED_OUTPUT",
        Fault.HUNDRED_MEGABYTES: "OUTPUT_TOO_LARGE",
        Fault.BINARY: "TIMEOUT",
        Fault.HALF: "UNAVAILABLE",
        Fault.RESET: "UNAVAILABLE",
        Fault.HANG: "TIMEOUT",
    },
    "http": {
        Fault.NOT_JSON: "MALFORMED_OUTPUT",
        Fault.WRONG_SCHEMA: "MALFORMED_OUTPUT",
        Fault.HUNDRED_MEGABYTES: "OUTPUT_TOO_LARGE",
        # Compression was not requested, and the unpacked size is unknown.
        Fault.PACKED: "MALFORMED_OUTPUT",
        Fault.BINARY: "MALFORMED_OUTPUT",
        Fault.HALF: "UNAVAILABLE",
        Fault.RESET: "UNAVAILABLE",
        Fault.HANG: "TIMEOUT",
    },
}
CANNOT = {
    "stdio": {Fault.PACKED: "a line of JSON is not packed"},
    "http": {},
}
CASES = [(transport, fault) for transport, faults in EXPECTED.items() for fault in faults]


def test_all_faults_are_there() -> None:
    for transport, cannot in CANNOT.items():
        assert EXPECTED[transport].keys() | cannot.keys() == set(Fault)


@pytest.mark.parametrize(("transport", "fault"), CASES)
async def test_a_bad_answer_is_a_typed_failure_and_a_paid_call(
    platform: ToolsPlatform, calls: ChargedCalls, transport: str, fault: Fault
) -> None:
    async with _misbehaving(platform, transport, fault) as spec:
        spec.name = f"weather-{transport}"
        with bounded_memory():
            call = await calls.made(spec, fault)
    call.assert_failed(EXPECTED[transport][fault])
    assert call.cost == CALL_PRICE


@asynccontextmanager
async def _misbehaving(
    platform: ToolsPlatform, transport: str, fault: Fault
) -> AsyncIterator[tool_pb2.ToolSpec]:
    limits = limits_for(EXPECTED[transport][fault])
    if transport == "stdio":
        program = Path(mcp_program.__file__)
        folder = platform.adapters_settings.mcp_servers_folder
        assert folder is not None
        args, folders = (str(program), fault.value), [str(program.parent)]
        define_server(folder, "weather", *args, folders=folders)
        yield mcp_spec("weather", "weather", limits=limits)
        return
    async with MisbehavingServer(fault, well=_answer_well) as server:
        yield mcp_http_spec("weather", f"{server.url}/mcp", limits=limits)


async def _answer_well(request: web.Request, fault: Fault | None) -> web.Response | None:
    body = await request.text()
    message = json.loads(body) if body else {}
    if not mcp_program.is_call(message):
        return mcp_greeting(message)
    # Only who has read the call can answer it, if wrongly.
    wrong = fault is Fault.WRONG_SCHEMA
    return as_json(mcp_program.wrong_answer(message)) if wrong else None
