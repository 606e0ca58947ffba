import pytest

from integration.misbehaviour.charged_calls import ChargedCalls, limits_for
from integration.misbehaviour.faults import Fault
from integration.misbehaviour.http_server import MisbehavingServer
from integration.misbehaviour.memory import bounded_memory
from integration.tool_adapters.tool_specs import llm_spec
from podium.registry.v1 import tool_pb2

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
# A provider charges for what it has written, and for a prompt it may still be reading.
CHARGED = {Fault.HALF, Fault.HANG}
ROLE = {"role": tool_pb2.LLM_ROLE_GENERALIST}
BEGINNING = "the beginning of"
STREAM = "text/event-stream"
HALF_STREAMS = {
    "OPENAI_CHAT": (
        f'data: {{"id": "1", "choices": [{{"delta": {{"content": "{BEGINNING}"}}}}]}}\n\ndata: {{"i'
    ),
    "ANTHROPIC_MESSAGES": (
        'data: {"type": "message_start", "message": {"id": "1"}}\n\n'
        'data: {"type": "content_block_delta", "delta": {"type": "text_delta", '
        f'"text": "{BEGINNING}"}}}}\n\ndata: {{"ty'
    ),
}
CASES = [(api, fault) for api in HALF_STREAMS for fault in EXPECTED]


def test_all_faults_are_there() -> None:
    assert set(EXPECTED) == set(Fault)


@pytest.mark.parametrize(("api", "fault"), CASES)
async def test_a_bad_answer_is_a_typed_failure_charged_for_what_came(
    calls: ChargedCalls, api: str, fault: Fault
) -> None:
    half = (STREAM, HALF_STREAMS[api].encode())
    async with MisbehavingServer(fault, b'{"choices": "none", "content": 5}', half) as server:
        spec = llm_spec(f"{server.url}/v1", api, limits=limits_for(EXPECTED[fault]), llm=ROLE)
        spec.name = api.partition("_")[0].lower()
        with bounded_memory():
            call = await calls.made(spec, fault)
    call.assert_failed(EXPECTED[fault])
    assert (call.cost > 0) == (fault in CHARGED), call.entry
    assert (BEGINNING in call.answer.failure.message) == (fault is Fault.HALF)


async def test_half_a_character_does_not_spoil_an_answer(calls: ChargedCalls) -> None:
    reply = rb'{"choices": [{"message": {"content": "27 \ud83d degrees"}}]}'
    async with MisbehavingServer(Fault.WRONG_SCHEMA, reply) as server:
        spec = llm_spec(f"{server.url}/v1", llm=ROLE)
        spec.name = "half-a-character"
        call = await calls.made(spec, Fault.WRONG_SCHEMA)
    assert call.answer.output.content == "27 \ufffd degrees"
    assert call.cost > 0
